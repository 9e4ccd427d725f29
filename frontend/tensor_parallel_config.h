// Reads configs of the tensor_parallel library in their string forms.
#ifndef TP_FRONTEND_TENSOR_PARALLEL_CONFIG_H_
#define TP_FRONTEND_TENSOR_PARALLEL_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/user_rules.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

// JSON of the library's maps from regular expressions to actions:
//
//   {"state_rules":  {"c_fc\\.weight$": "split 1", "c_proj\\.bias$": "scale"},
//    "input_rules":  {"lm_head$": {"0": "split -1"}},
//    "output_rules": {"c_proj$": {"0": "sum"}, "wte$": {"0": "gather -1"}},
//    "attr_rules":   {...}}
//
// "split D" is a split of dim D, "gather D" and "sum" make whole, "scale"
// only ever spread a bias over the ranks and is dropped: here it is added
// once. Rules may match nothing, as there. What was dropped or left out is
// told in `notes`. kInvalidArgument for anything that is not of these forms.
absl::StatusOr<UserRules> ParseTensorParallelConfig(
    llvm::StringRef text, const std::string& file,
    std::vector<std::string>& notes);
absl::StatusOr<UserRules> ReadTensorParallelConfig(
    const std::string& path, std::vector<std::string>& notes);

}  // namespace tp

#endif  // TP_FRONTEND_TENSOR_PARALLEL_CONFIG_H_
