// What a machine can do, for predicting how long a plan takes.
#ifndef TP_IR_MACHINE_H_
#define TP_IR_MACHINE_H_

#include <cstdint>
#include <map>
#include <string>

namespace tp {

// How ranks of one mesh axis talk.
struct Link {
  double latency_us = 5;      // of one collective
  double bytes_per_us = 5e3;  // leaving a rank

  friend bool operator==(const Link&, const Link&) = default;
};

// One device per rank, all alike. The defaults are the preset cpu-shm.
struct Machine {
  std::string name = "cpu-shm";
  double flops_per_us = 50e3;         // a multiply-add counts twice
  double memory_bytes_per_us = 10e3;  // that kernels read and write
  double kernel_us = 1;               // floor of every op that is no view
  int64_t memory_bytes = 0;           // of a device; 0: not known
  Link link;                          // of axes that are not named
  std::map<std::string, Link> axes;

  const Link& LinkOf(const std::string& axis) const {
    auto it = axes.find(axis);
    return it == axes.end() ? link : it->second;
  }
  friend bool operator==(const Machine&, const Machine&) = default;
};

// A machine file (frontend/machine_reader.h) that says the same.
std::string MachineYaml(const Machine& machine);

}  // namespace tp

#endif  // TP_IR_MACHINE_H_
