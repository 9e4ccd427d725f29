#include "passes/plan_why.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "ir/op_def.h"
#include "ir/schedule.h"
#include "ir/status.h"
#include "ir/value_names.h"
#include "llvm/ADT/DenseMap.h"
#include "passes/strategy.h"

namespace tp {
namespace {

constexpr int kMaxSteps = 24;

// Whether `end` is all of a name or follows a dot, a colon or a space in it.
bool EndsWithName(const std::string& name, const std::string& end) {
  if (!absl::EndsWith(name, end)) return false;
  if (name.size() == end.size()) return true;
  const char before = name[name.size() - end.size() - 1];
  return before == '.' || before == ':' || before == ' ';
}

class Why {
 public:
  Why(const Module& planned, const Function& function, const CostModel& cost)
      : module_(planned), cost_(cost) {
    for (const NamedValue& named : NamedValues(planned))
      names_[named.value] = named.name;
    for (size_t i = 0; i < function.arguments().size(); ++i)
      if (function.arguments()[i].is_weight())
        names_[function.body().arguments()[i].get()] =
            function.arguments()[i].name;
    ForEachOp(function.body(), [&](const Op& op) {
      for (const Value* operand : op.operands())
        if (operand != nullptr) users_[operand].push_back(&op);
    });
  }

  std::string Text(const PlanSubject& subject) {
    text_ = absl::StrCat(subject.name, "  ", ToString(subject.value->type()),
                         " ", ToString(subject.value->spec()), "\n");
    if (subject.weight != nullptr && !subject.weight->aliases.empty())
      absl::StrAppend(&text_, "  also ",
                      absl::StrJoin(subject.weight->aliases, ", "), "\n");
    for (axis_ = 0; axis_ < module_.mesh().ndim(); ++axis_) {
      absl::StrAppend(&text_, module_.mesh().axis(axis_).name, ": ",
                      Placed(*subject.value).ToString(), "\n");
      if (subject.value->op() != nullptr) Back(subject.value);
      if (subject.weight != nullptr) Uses(subject.value);
      if (subject.weight == nullptr) Forward(subject.value, 1);
    }
    absl::StrAppend(&text_,
                    "What other placements would cost: tp-compile "
                    "--explain '",
                    subject.name, "'\n");
    return text_;
  }

 private:
  Placement Placed(const Value& value) const {
    return AxisPlacement(value, axis_);
  }
  void Line(int depth, const std::string& text) {
    absl::StrAppend(&text_, std::string(2 * depth, ' '), text, "\n");
  }
  std::string NameOf(const Value* value) const {
    if (auto it = names_.find(value); it != names_.end()) return it->second;
    return value->op() != nullptr ? value->op()->name() : "an argument";
  }

  // "tp.all_reduce over tp makes it R, 7.1 us" of a step of a reshard.
  std::string Exchange(const Op& op) const {
    std::string text = op.name();
    if (const Attribute* axis = op.attribute("axis"))
      absl::StrAppend(&text, " over ", axis->as_string());
    absl::StrAppend(&text, " makes it ", ToString(op.result()->spec()));
    double microseconds = 0;
    for (int axis = 0; axis < module_.mesh().ndim(); ++axis)
      microseconds += ReshardMicroseconds(
          cost_, op.result()->type(), AxisPlacement(*op.operand(0), axis),
          AxisPlacement(*op.result(), axis), module_.mesh().axis(axis).size,
          module_.assumptions());
    return microseconds > 0
               ? absl::StrFormat("%s, about %.1f us", text, microseconds)
               : text;
  }

  // How the op runs on the axis: "splits n of "m k+, n k+ -> m n"".
  std::string How(const Op& op) const {
    absl::StatusOr<OpRule> rule = RuleOf(op);
    if (!rule.ok()) return "is no op of the table";
    absl::StatusOr<Strategy> strategy =
        DeriveStrategy(op, *rule, module_, axis_, cost_);
    if (!strategy.ok()) return "runs";
    switch (strategy->kind) {
      case Strategy::Kind::kReplicate:
        return "computes the whole on every rank";
      case Strategy::Kind::kPartial:
        return "passes on sums that are due";
      case Strategy::Kind::kSplit:
        break;
    }
    const Factor& factor = rule->factors[strategy->split.factor];
    return absl::StrCat(factor.kind == FactorKind::kReduce ? "sums over its "
                                                             "part of "
                                                           : "makes its part "
                                                             "of ",
                        factor.name, " (rule ", rule->ToString(), ")");
  }

  static bool IsStep(const Op& op) {
    return HasTrait(op, kCollective) || op.Is("tp.broadcast");
  }

  // From a value to what it follows from, as far as that is split.
  void Back(const Value* value) {
    for (int step = 0; value != nullptr && value->op() != nullptr; ++step) {
      const Op& op = *value->op();
      const bool boundary = HasTrait(op, kBoundary);
      if (step == kMaxSteps) return Line(1, "...");
      if (IsStep(op)) {
        Line(1,
             absl::StrCat("from ", NameOf(op.operand(0)), " ",
                          ToString(op.operand(0)->spec()), ": ", Exchange(op)));
        value = op.operand(0);
        continue;
      }
      if (!boundary)
        Line(1, absl::StrCat("made by ", NameOf(value), ", which ", How(op),
                             ", at ", ToString(op.location())));
      const Value* next = nullptr;
      for (const Value* operand : op.operands()) {
        if (operand == nullptr || Placed(*operand).is_replicate()) continue;
        const bool weight = operand->op() == nullptr;
        if (weight)
          Line(2, absl::StrCat("with ", NameOf(operand), " ",
                               ToString(operand->spec())));
        else if (next == nullptr)
          next = operand;
      }
      if (boundary) next = op.operand_or_null(value->index());
      value = next;
    }
  }

  void Uses(const Value* weight) {
    for (const Op* user : users_[weight]) {
      if (IsStep(*user)) {
        Line(1, absl::StrCat("before its use ", Exchange(*user)));
        Uses(user->result());
        continue;
      }
      if (HasTrait(*user, kBoundary)) {
        for (int i = 0; i < user->num_operands(); ++i)
          if (user->operand(i) == weight && i < user->num_results())
            Uses(user->result(i));
        continue;
      }
      if (user->num_results() == 0) continue;
      Line(1, absl::StrCat("used by ", NameOf(user->result()), ", which ",
                           How(*user), ", at ", ToString(user->location())));
      Forward(user->result(), 2);
    }
  }

  // On to where ranks exchange what became of the value.
  void Forward(const Value* value, int depth) {
    for (int step = 0; step < kMaxSteps; ++step) {
      if (Placed(*value).is_replicate()) return;
      const auto users = users_.find(value);
      if (users == users_.end() || users->second.empty())
        return Line(depth, "nothing uses it further");
      const Op* next = users->second.front();
      for (const Op* user : users->second)
        if (IsStep(*user)) next = user;
      if (IsStep(*next))
        return Line(depth, absl::StrCat("then ", Exchange(*next)));
      if (next->num_results() == 0) return;
      if (!HasTrait(*next, kBoundary)) {
        value = next->result();
        Line(depth, absl::StrCat("then ", NameOf(value), " ",
                                 ToString(value->spec()), " ", How(*next)));
        continue;
      }
      const Value* passed = nullptr;
      for (int i = 0; i < next->num_operands() && i < next->num_results(); ++i)
        if (next->operand(i) == value) passed = next->result(i);
      if (passed == nullptr) return;
      value = passed;
    }
  }

  const Module& module_;
  const CostModel& cost_;
  int axis_ = 0;
  llvm::DenseMap<const Value*, std::string> names_;
  llvm::DenseMap<const Value*, std::vector<const Op*>> users_;
  std::string text_;
};

}  // namespace

absl::StatusOr<PlanSubject> FindSubject(const Module& module,
                                        const std::string& name) {
  std::vector<PlanSubject> exact;
  std::vector<PlanSubject> ends;
  std::vector<std::string> known;
  const auto consider = [&](const std::string& candidate,
                            const PlanSubject& subject) {
    known.push_back(candidate);
    if (candidate == name) exact.push_back(subject);
    if (EndsWithName(candidate, name)) ends.push_back(subject);
  };
  std::vector<std::string> seen;
  for (const auto& function : module.functions()) {
    if (!IsPlanned(module, *function)) continue;
    for (size_t i = 0; i < function->arguments().size(); ++i) {
      const ArgumentInfo& info = function->arguments()[i];
      if (!info.is_weight() || llvm::is_contained(seen, info.name)) continue;
      seen.push_back(info.name);
      const PlanSubject subject{info.name,
                                function->body().arguments()[i].get(),
                                function.get(), &info};
      consider(info.name, subject);
      for (const std::string& alias : info.aliases) consider(alias, subject);
    }
  }
  for (const NamedValue& named : NamedValues(module))
    consider(named.name, {named.name, named.value, named.function, nullptr});
  const std::vector<PlanSubject>& found = exact.empty() ? ends : exact;
  for (const PlanSubject& other : found)
    if (other.value != found.front().value)
      return absl::InvalidArgumentError(
          absl::StrCat("\"", name, "\" is the end of several names: \"",
                       found.front().name, "\", \"", other.name, "\"",
                       found.size() > 2 ? ", ..." : "", "; write more of it"));
  if (found.empty())
    return absl::InvalidArgumentError(
        absl::StrCat("no weight or value is called \"", name,
                     "\"; near names: ", NearNames(name, known)));
  return found.front();
}

absl::StatusOr<std::string> WhyText(const Module& planned,
                                    const CostModel& cost,
                                    const std::string& name) {
  TP_ASSIGN_OR_RETURN(PlanSubject subject, FindSubject(planned, name));
  return Why(planned, *subject.function, cost).Text(subject);
}

}  // namespace tp
