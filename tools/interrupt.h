// Cleaning up when the user presses Ctrl-C or the system asks a tool to end.
// Header-only, because every tool is one file.
#ifndef TP_TOOLS_INTERRUPT_H_
#define TP_TOOLS_INTERRUPT_H_

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <system_error>
#include <thread>
#include <utility>

namespace tp {

// On SIGINT or SIGTERM calls `clean_up` in a thread of its own, and then ends
// the process with the exit code of the signal: 130 or 143. To be called
// before any other thread starts, for it has to inherit the blocked signals.
// A signal that the process was started to ignore (nohup) stays ignored.
inline void CleanUpWhenInterrupted(std::function<void()> clean_up) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM}) {
    struct sigaction action;
    if (sigaction(number, nullptr, &action) == 0 &&
        action.sa_handler != SIG_IGN)
      sigaddset(&signals, number);
  }
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  try {
    std::thread([signals, clean_up = std::move(clean_up)] {
      int number = 0;
      if (sigwait(&signals, &number) != 0) return;
      clean_up();
      _exit(128 + number);
    }).detach();
  } catch (const std::system_error&) {
    // No thread to be had: the signals end the process as they always do.
    pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  }
}

}  // namespace tp

#endif  // TP_TOOLS_INTERRUPT_H_
