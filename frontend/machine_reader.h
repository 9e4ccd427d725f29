// Reads machine files, and those that come with the compiler.
#ifndef TP_FRONTEND_MACHINE_READER_H_
#define TP_FRONTEND_MACHINE_READER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/machine.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// Every figure may be left out, and is then that of cpu-shm:
//
//   name: two boxes
//   flops_per_us: 692e6          # of one device; a multiply-add counts twice
//   memory_bytes_per_us: 2.3e6   # that kernels read and write
//   memory_bytes: 80e9           # of one device; or 80GB, 74GiB
//   kernel_us: 7                 # floor of every op that is no view
//   link: {latency_us: 10, bytes_per_us: 360e3}   # bytes leaving a rank
//   axes:                        # links of mesh axes that differ
//     dp: {latency_us: 30, bytes_per_us: 12.5e3}
//
// kInvalidArgument, with file, line and column, for unknown keys and figures
// that are not positive.
absl::StatusOr<Machine> ParseMachine(llvm::StringRef text,
                                     const std::string& file);
// A preset by its name, else a file. kNotFound lists near names.
absl::StatusOr<Machine> ReadMachine(const std::string& preset_or_path);

// "cpu-shm", "ethernet", "h100-nvlink", "pcie", and their files with the
// source of each figure.
std::vector<std::string> MachinePresets();
std::string MachinePresetText(const std::string& name);

}  // namespace tp

#endif  // TP_FRONTEND_MACHINE_READER_H_
