#include "ir/machine.h"

#include <charconv>

#include "absl/strings/str_cat.h"

namespace tp {
namespace {

// The shortest text that reads as the same number.
std::string Text(double number) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), number);
  return std::string(buffer, end.ptr);
}

std::string LinkYaml(const Link& link) {
  return absl::StrCat("{latency_us: ", Text(link.latency_us),
                      ", bytes_per_us: ", Text(link.bytes_per_us), "}");
}

}  // namespace

std::string MachineYaml(const Machine& machine) {
  std::string text = absl::StrCat(
      "name: ", machine.name, "\nflops_per_us: ", Text(machine.flops_per_us),
      "\nmemory_bytes_per_us: ", Text(machine.memory_bytes_per_us),
      "\nkernel_us: ", Text(machine.kernel_us),
      "\nmemory_bytes: ", machine.memory_bytes,
      "\nlink: ", LinkYaml(machine.link), "\n");
  if (machine.axes.empty()) return text;
  absl::StrAppend(&text, "axes:\n");
  for (const auto& [axis, link] : machine.axes)
    absl::StrAppend(&text, "  ", axis, ": ", LinkYaml(link), "\n");
  return text;
}

}  // namespace tp
