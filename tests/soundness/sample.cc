#include "tests/soundness/sample.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <regex>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ir/status.h"
#include "ir/text.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "runtime/aten_kernel.h"

namespace tp::soundness {
namespace {

// The operands with their types and ranges taken out: "%a0, [%a1, none]".
struct Operands {
  std::string text;
  std::vector<std::string> types;
  std::vector<std::string> ranges;  // "" where there is none
};

Operands TakeTypes(absl::string_view text) {
  Operands result;
  for (size_t i = 0; i < text.size();) {
    if (absl::StartsWith(text.substr(i), "none")) {
      result.text += "none";
      i += 4;
    } else if (llvm::isAlpha(text[i])) {
      const size_t end = text.find(']', i) + 1;
      absl::StrAppend(&result.text, "%a", result.types.size());
      result.types.emplace_back(text.substr(i, end - i));
      i = end;
      std::string range;
      if (i < text.size() && text[i] == '~') {
        ++i;
        while (i < text.size() &&
               (llvm::isDigit(text[i]) || text[i] == '.' || text[i] == '-'))
          range += text[i++];
      }
      result.ranges.push_back(range);
    } else {
      result.text += text[i++];
    }
  }
  return result;
}

void ReadRange(absl::string_view range, ValueSpec& spec) {
  const size_t dots = range.find("..");
  if (dots == absl::string_view::npos) return;
  spec.usual = false;
  spec.low = std::stod(std::string(range.substr(0, dots)));
  spec.high = std::stod(std::string(range.substr(dots + 2)));
}

const std::regex& SymbolPattern() {
  static const auto* const pattern = new std::regex("\\bN\\b");
  return *pattern;
}

}  // namespace

bool MentionsSymbol(absl::string_view line) {
  return std::regex_search(std::string(line), SymbolPattern());
}

absl::StatusOr<Sample> ParseSample(absl::string_view line, bool symbolic) {
  Sample sample;
  sample.symbolic = symbolic;
  std::string text(line);
  bool ordered = false;
  if (const size_t mark = text.find(" ! "); mark != std::string::npos) {
    std::string flags = text.substr(mark + 3);
    text.resize(mark);
    const size_t reason = flags.find("no-grad ");
    if (reason != std::string::npos) sample.no_grad = flags.substr(reason + 8);
    flags.resize(std::min(flags.size(), reason));
    sample.values_undefined = absl::StrContains(flags, "values");
    sample.random = absl::StrContains(flags, "random");
    sample.dense = absl::StrContains(flags, "dense");
    sample.refused = absl::StrContains(flags, "refused");
    ordered = absl::StrContains(flags, "ordered");
  }
  sample.text = text;
  if (!symbolic)
    text = std::regex_replace(text, SymbolPattern(), absl::StrCat(kSize));
  const size_t open = text.find('(');
  const size_t close = text.find(')', open);
  if (close == std::string::npos)
    return absl::InvalidArgumentError(absl::StrCat("not a sample: ", line));
  sample.op = text.substr(0, open);
  const Operands operands =
      TakeTypes(absl::string_view(text).substr(open + 1, close - open - 1));
  std::string arguments;
  for (size_t i = 0; i < operands.types.size(); ++i)
    absl::StrAppend(&arguments, i == 0 ? "" : ", ", "%a", i, ": ",
                    operands.types[i]);
  // An op without a row is not checked against its rule.
  TP_ASSIGN_OR_RETURN(
      std::unique_ptr<Module> module,
      Parse(
          absl::StrCat("tpir 1\nsymbol ", kSymbol, " = ", kSize, "\nfunc @f(",
                       arguments, ") -> () {\n  %r = test.op(", operands.text,
                       ")", text.substr(close + 1), " : f64[]\n  return\n}\n"),
          "sample"));
  const Function& function = *module->function("f");
  const Op& op = **function.body().ops().begin();
  sample.slots.assign(op.slots().begin(), op.slots().end());
  sample.attributes = op.attributes();
  for (const Value* operand : op.operands()) {
    sample.present.push_back(operand != nullptr);
    ValueSpec spec;
    if (operand != nullptr) {
      spec.type = operand->type();
      ReadRange(operands.ranges[operand->index()], spec);
      spec.ordered = ordered;
    }
    sample.operands.push_back(std::move(spec));
  }
  return sample;
}

absl::StatusOr<Op*> Sample::Make(Builder& builder,
                                 llvm::ArrayRef<Value*> values) const {
  std::vector<OperandArg> arguments;
  for (const OperandSlot& slot : slots) {
    if (slot.is_list) {
      arguments.push_back(
          std::vector<Value*>(values.slice(slot.begin, slot.size)));
    } else {
      arguments.push_back(values[slot.begin]);
    }
  }
  return builder.Create(op, std::move(arguments), attributes);
}

at::Tensor RandomTensor(const ValueSpec& spec, int64_t size, uint64_t seed) {
  SymbolValues symbols;
  symbols[kSymbol] = size;
  auto dims = EvaluateDims(spec.type.dims, symbols);
  const at::IntArrayRef sizes(dims->data(), dims->size());
  at::Generator generator = at::detail::createCPUGenerator(seed);
  const at::ScalarType dtype = ScalarTypeOf(spec.type.dtype);
  if (spec.type.dtype == DType::kBool)
    return at::randint(0, 2, sizes, generator, at::kLong).to(dtype);
  if (IsFloatingPoint(spec.type.dtype)) {
    const double low = spec.usual ? -2 : spec.low;
    const double high = spec.usual ? 2 : spec.high;
    at::Tensor unit = at::rand(sizes, generator, at::dtype(at::kDouble));
    return (unit * (high - low) + low).to(dtype);
  }
  const int64_t low = spec.usual ? 0 : static_cast<int64_t>(spec.low);
  const int64_t high = spec.usual ? 3 : static_cast<int64_t>(spec.high);
  at::Tensor values = at::randint(low, high + 1, sizes, generator, at::kLong);
  if (spec.ordered) {
    values = std::get<0>(values.sort());
    values.select(-1, values.size(-1) - 1).fill_(high);
  }
  return values.to(dtype);
}

std::vector<absl::string_view> Lines(absl::string_view text) {
  std::vector<absl::string_view> lines;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  }
  return lines;
}

}  // namespace tp::soundness
