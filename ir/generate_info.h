// What text generation has to know of a model besides its functions: the file
// that tp_export.py --generate writes beside the TorchScript files, and a part
// of a package's manifest.
#ifndef TP_IR_GENERATE_INFO_H_
#define TP_IR_GENERATE_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/cache_links.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/JSON.h"

namespace tp {

struct GenerateEntry {
  std::string name;
  std::string file;                 // TorchScript, relative to the JSON file
  std::vector<std::string> inputs;  // example inputs, relative too
};

// As JSON:
//   {"tp_generate": 1, "model": "llama",
//    "entries": [{"name": "prefill", "file": "llama.prefill.pt",
//                 "inputs": ["llama.prefill.inputs.safetensors"]}, ...],
//    "caches": ["prefill.output_1=step.input_2", ...],
//    "bos": 1, "eos": [2], "pad": 0, "decoder_start": [0], "max_length": 64}
// A number that is not there is -1, a list empty.
struct GenerateInfo {
  std::string model;
  std::vector<GenerateEntry> entries;
  std::vector<CacheLink> caches;
  int64_t bos = -1;
  int64_t pad = -1;
  std::vector<int64_t> eos;            // any of these ends a row
  std::vector<int64_t> decoder_start;  // what a decoder behind an encoder gets
  int64_t max_length = -1;             // positions that the model has

  // What of it is not in a package anyway: without files.
  llvm::json::Object ToJson() const;
};

// kInvalidArgument names the field that is wrong; unknown ones are left alone.
absl::StatusOr<GenerateInfo> ParseGenerateInfo(const llvm::json::Object& json);
// The same from a file, with paths made relative to the current folder.
absl::StatusOr<GenerateInfo> ReadGenerateInfo(const std::string& path);

}  // namespace tp

#endif  // TP_IR_GENERATE_INFO_H_
