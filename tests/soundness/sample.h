// Samples of the op table's rows, one line each:
//
//   aten.mm(f64[N,10], f64[10,6])
//   aten.index.Tensor(f64[N,7,6], [none, i64[3]~0..6])
//   aten.softmax.int(f64[N,7]) {dim = -1} ! flag
//
// Operands are types in the order of the schema, with the range of their
// values where the usual one (-2..2, 0..3 for integers) will not do. The size
// N is 6 in one run of the sample and a symbol in another. Flags:
//
//   values    the values are not defined (empty): only types are compared
//   random    the values differ from run to run, but not between ranks
//   ordered   operands are sorted, the last one as high as can be
//   dense     split operands are made without gaps first, as a view needs
//   refused   the row's shape function says why this cannot be compiled
//   no-grad REASON  gradients are not compared
#ifndef TESTS_SOUNDNESS_SAMPLE_H_
#define TESTS_SOUNDNESS_SAMPLE_H_

#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ir/builder.h"
#include "ir/module.h"

namespace tp::soundness {

// The size N of samples without a symbol, and its hint.
inline constexpr int64_t kSize = 6;
inline constexpr char kSymbol[] = "N";

struct ValueSpec {
  TensorType type;
  bool usual = true;  // -2..2, integers 0..3
  double low = 0;
  double high = 0;
  bool ordered = false;
};

struct Sample {
  std::string text;
  std::string op;
  // Flattened; of absent operands only `present` counts.
  std::vector<ValueSpec> operands;
  std::vector<bool> present;
  std::vector<OperandSlot> slots;
  std::vector<NamedAttribute> attributes;
  bool symbolic = false;
  bool values_undefined = false;
  bool random = false;
  bool dense = false;
  bool refused = false;
  std::string no_grad;  // the reason

  // The op over these flattened operands, appended to the builder's block.
  absl::StatusOr<Op*> Make(Builder& builder,
                           llvm::ArrayRef<Value*> operands_of_op) const;
};

// `symbolic`: N stays a symbol.
absl::StatusOr<Sample> ParseSample(absl::string_view line, bool symbolic);
bool MentionsSymbol(absl::string_view line);

// Random, the same for equal seeds.
at::Tensor RandomTensor(const ValueSpec& spec, int64_t size, uint64_t seed);

struct Family {
  std::string name;
  std::vector<absl::string_view> lines;
};
// All samples, by family of the op table.
const std::vector<Family>& Families();

// Lines of a text, without empty ones and comments.
std::vector<absl::string_view> Lines(absl::string_view text);

}  // namespace tp::soundness

#endif  // TESTS_SOUNDNESS_SAMPLE_H_
