// Configs by hand for families of models, as people split them: columns, then
// rows, then a sum. They are what a plan is compared with, and a start for a
// config of one's own; tp-compile without one searches.
#ifndef TP_FRONTEND_PRESETS_H_
#define TP_FRONTEND_PRESETS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ir/user_rules.h"
#include "llvm/ADT/ArrayRef.h"

namespace tp {

// "bert", "bloom", ..., sorted.
std::vector<std::string> PresetNames();

// The rules of a preset; kInvalidArgument lists near names.
absl::StatusOr<UserRules> PresetRules(const std::string& name);

// The preset whose weights have such names; kInvalidArgument if none has.
absl::StatusOr<std::string> RecognizePreset(
    llvm::ArrayRef<std::string> weight_names);

}  // namespace tp

#endif  // TP_FRONTEND_PRESETS_H_
