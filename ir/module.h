// Functions and modules.
#ifndef TP_IR_MODULE_H_
#define TP_IR_MODULE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/assumptions.h"
#include "ir/mesh.h"
#include "ir/value.h"

namespace tp {

// What an argument of a function is.
enum class ArgumentKind : uint8_t {
  kInput,      // given by the user at each call
  kParameter,  // a weight that may be trained
  kBuffer,     // a weight that may not
  kConstant,   // a tensor constant of the traced code
};

struct ArgumentInfo {
  ArgumentKind kind = ArgumentKind::kInput;
  // Input: the name in inputs files. Else the first dotted name of the weight.
  std::string name;
  // Other names of the same region of storage (tied weights).
  std::vector<std::string> aliases;
  // A parameter that training leaves as it is (requires_grad is off).
  bool frozen = false;
  // An input that holds what a result of another function leaves in it.
  bool fed = false;

  bool is_trainable() const {
    return kind == ArgumentKind::kParameter && !frozen;
  }
  bool is_weight() const { return kind != ArgumentKind::kInput; }
};

// What a result of a function is, besides a value.
struct ResultInfo {
  // The argument whose content it becomes at the next call: a buffer that the
  // model writes, an input that it writes in place, a cache that it returns.
  // The result then lies on the mesh as the argument does. -1: none.
  int argument = -1;
  // Whether the model returns it; if not, it is there for the argument alone.
  bool is_output = true;
  // The input of another function that it becomes, and as which it lies: the
  // cache that @prefill leaves for @step. "": none.
  std::string feeds_function = {};
  std::string feeds_input = {};

  bool feeds() const { return !feeds_function.empty(); }

  friend bool operator==(const ResultInfo&, const ResultInfo&) = default;
};

// func @forward(%x: f32[batch,16] <R>,
//               %w: f32[64,16] <S(0)> param "wi.weight" alias "wo.weight",
//               %n: i64[] <R> buffer "count")
//     -> (f32[batch,64], i64[] state %n) { ... }
// A result of another function that becomes an input of this one says so,
// as "feeds @step \"past\"", and the input is "fed".
// Inputs are whole (<R>) and carry global shapes, also in rank programs: a
// program that wants a piece of one slices it. Only an input that a result
// becomes may be split, and is then of the local shape in rank programs.
class Function {
 public:
  explicit Function(std::string name) : name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  Block& body() { return body_; }
  const Block& body() const { return body_; }
  // One per argument of body().
  std::vector<ArgumentInfo>& arguments() { return arguments_; }
  const std::vector<ArgumentInfo>& arguments() const { return arguments_; }
  Value* AddArgument(TensorType type, ArgumentInfo info);
  // Removes an argument that nothing uses and no result becomes.
  void RemoveArgument(int index);

  // Of result `index` of body(); a plain output unless said otherwise.
  ResultInfo result_info(size_t index) const {
    return index < result_infos_.size() ? result_infos_[index] : ResultInfo();
  }
  void AddResult(Value* value, ResultInfo info = {});
  void SetResultInfo(size_t index, ResultInfo info);
  // Replaces what the model returns by one value; what is there for an
  // argument alone stays.
  void SetOnlyOutput(Value* value);
  // The argument of an input; -1 if there is none of this name.
  int FindInput(llvm::StringRef name) const;
  // Whether a result, of this function or another, becomes this argument.
  bool IsCarried(int argument) const;

 private:
  std::string name_;
  Block body_;
  std::vector<ArgumentInfo> arguments_;
  std::vector<ResultInfo> result_infos_;  // the rest are plain outputs
};

class Module {
 public:
  Mesh& mesh() { return mesh_; }
  const Mesh& mesh() const { return mesh_; }
  void set_mesh(Mesh mesh) { mesh_ = std::move(mesh); }
  // Set in the program of one rank: types of values are then local.
  std::optional<int64_t> rank() const { return rank_; }
  void set_rank(int64_t rank) { rank_ = rank; }

  // Symbols with their bindings, and the guards taken so far.
  Assumptions& assumptions() { return assumptions_; }
  const Assumptions& assumptions() const { return assumptions_; }

  const std::vector<std::unique_ptr<Function>>& functions() const {
    return functions_;
  }
  Function* AddFunction(std::string name);
  // Null if there is none.
  Function* function(llvm::StringRef name) const;

 private:
  Mesh mesh_;
  std::optional<int64_t> rank_;
  Assumptions assumptions_;
  std::vector<std::unique_ptr<Function>> functions_;
};

// A deep copy (values and ops are new objects).
std::unique_ptr<Module> CloneModule(const Module& module);

}  // namespace tp

#endif  // TP_IR_MODULE_H_
