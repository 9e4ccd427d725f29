// Random valid modules, for properties of the text format.
#ifndef TP_TESTS_UNIT_RANDOM_MODULE_H_
#define TP_TESTS_UNIT_RANDOM_MODULE_H_

#include <bit>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ir/builder.h"

namespace tp {

// Uses every construct of the language; ops are made up ("test.op3"), so no
// row of the op table constrains them.
class RandomModule {
 public:
  explicit RandomModule(uint64_t seed) : random_(seed) {}

  std::unique_ptr<Module> Make() {
    module_ = std::make_unique<Module>();
    if (!OneIn(5)) module_->set_mesh(MakeMesh());
    if (module_->mesh().ndim() > 0 && OneIn(4))
      module_->set_rank(Below(module_->mesh().num_ranks()));
    for (int i = Below(4); i > 0; --i)
      module_->assumptions().AddSymbol(
          {"s" + std::to_string(i), Below(9), "", 0});
    for (int i = Below(4); i > 0; --i)
      module_->assumptions().AddGuard({Size(2), static_cast<Relation>(Below(6)),
                                       Size(2), OneIn(2) ? "" : Text(),
                                       MakeLocation()});
    for (int i = Below(4); i > 0; --i) MakeFunction("f" + std::to_string(i));
    return std::move(module_);
  }

  int Below(int64_t n) { return static_cast<int>(random_() % n); }
  bool OneIn(int n) { return Below(n) == 0; }

 private:
  Mesh MakeMesh() {
    std::vector<MeshAxis> axes = {{"tp", 1 + Below(4)}};
    if (OneIn(3)) axes.insert(axes.begin(), {"dp", 1 + Below(3)});
    return Mesh(std::move(axes));
  }

  std::string Text() {
    static const char* const kPieces[] = {"a",  "b.c", "\"", "\\", "\n",
                                          "\t", "x1",  "ä",  "//", "\xff",
                                          " ",  "{",   "%0", ":",  "loc"};
    std::string text;
    for (int i = Below(5); i > 0; --i) text += kPieces[Below(15)];
    return text;
  }

  Location MakeLocation() {
    if (OneIn(2)) return {};
    return {Text(), Text(), Below(3) * 7, Below(3) * 5};
  }

  SymExpr Symbol() {
    const auto& symbols = module_->assumptions().symbols();
    if (symbols.empty()) return Below(10);
    return SymExpr::Symbol(symbols[Below(symbols.size())].name);
  }

  // A size expression that may be anything.
  SymExpr Size(int depth) {
    if (depth == 0) return OneIn(2) ? SymExpr(Below(20) - 5) : Symbol();
    SymExpr a = Size(depth - 1), b = Size(depth - 1);
    switch (Below(7)) {
      case 0:
        return a + b;
      case 1:
        return a - b;
      case 2:
        return a * b;
      case 3:
        return FloorDiv(a, 1 + Below(9));
      case 4:
        return Mod(a, 1 + Below(9));
      case 5:
        return Min(a, b);
      default:
        return Max(a, b);
    }
  }

  SymExpr PositiveSize() {
    if (OneIn(3)) return Symbol();
    return OneIn(5) ? Max(Size(1), 1) : SymExpr(1 + Below(12));
  }

  // The type, and a spec that fits it (or none).
  void MakeType(TensorType& type, ShardingSpec& spec) {
    type.dtype = static_cast<DType>(Below(10));
    const DimFactor box{PositiveSize(), PositiveSize(), PositiveSize()};
    for (int i = Below(4); i > 0; --i)
      type.dims.push_back(OneIn(2) ? box.dim_size() : PositiveSize());
    if (module_->mesh().ndim() == 0 || OneIn(3)) return;
    for (int axis = 0; axis < module_->mesh().ndim(); ++axis)
      spec.push_back(MakePlacement(type, box));
  }

  Placement MakePlacement(const TensorType& type, const DimFactor& box) {
    const int kind = Below(3);
    if (kind == 0 || type.ndim() == 0) return Placement();
    if (kind == 1) return Placement::Partial(static_cast<ReduceKind>(Below(3)));
    const int dim = Below(type.ndim());
    if (type.dims[dim] == box.dim_size() || module_->rank())
      return Placement::Shard(dim, box);
    return Placement::Shard(dim, type.dims[dim]);
  }

  Attribute MakeAttribute(int depth) {
    switch (Below(depth > 0 ? 9 : 7)) {
      case 0:
        return Attribute();
      case 1:
        return OneIn(2);
      case 2:
        return Size(Below(3));
      case 3:
        return static_cast<double>(Below(100)) / 8;
      case 4:
        return std::bit_cast<double>(random_());
      case 5:
        return Text();
      case 6:
        return static_cast<DType>(Below(10));
      default: {
        Attribute::List list;
        for (int i = Below(4); i > 0; --i)
          list.push_back(MakeAttribute(depth - 1));
        return list;
      }
    }
  }

  std::string MaybeName() { return OneIn(2) ? "" : Text(); }

  void MakeFunction(const std::string& name) {
    Function* function = module_->AddFunction(name);
    std::vector<Value*> visible;
    for (int i = Below(6); i > 0; --i) {
      TensorType type;
      ShardingSpec spec;
      MakeType(type, spec);
      ArgumentInfo info;
      info.kind = static_cast<ArgumentKind>(Below(4));
      info.name = "w" + std::to_string(i) + Text();
      while (OneIn(3))
        info.aliases.push_back(info.name + "." +
                               std::to_string(info.aliases.size()));
      Value* value = function->AddArgument(type, info);
      value->set_spec(spec);
      if (OneIn(2)) value->set_name(MaybeName());
      visible.push_back(value);
    }
    MakeOps(function->body(), visible, 2);
  }

  void MakeOps(Block& block, std::vector<Value*> visible, int depth) {
    auto pick = [&]() -> Value* {
      if (visible.empty() || OneIn(6)) return nullptr;
      return visible[Below(visible.size())];
    };
    Builder builder(*module_, block);
    for (int i = Below(7); i > 0; --i) {
      std::vector<OperandArg> operands;
      for (int j = Below(4); j > 0; --j) {
        if (OneIn(3)) {
          std::vector<Value*> list;
          for (int k = Below(4); k > 0; --k) list.push_back(pick());
          operands.emplace_back(std::move(list));
        } else {
          operands.emplace_back(pick());
        }
      }
      std::vector<NamedAttribute> attributes;
      for (int j = Below(4); j > 0; --j)
        attributes.push_back({"a" + std::to_string(j), MakeAttribute(2)});
      builder.set_location(MakeLocation());
      Op* op =
          builder.CreateTyped("test.op" + std::to_string(Below(3)),
                              std::move(operands), std::move(attributes), {});
      while (depth > 0 && OneIn(5)) {
        Block* region = op->AddRegion();
        std::vector<Value*> inside = visible;
        for (int j = Below(3); j > 0; --j) {
          TensorType type;
          ShardingSpec spec;
          MakeType(type, spec);
          Value* argument = region->AddArgument(type);
          argument->set_spec(spec);
          argument->set_name(MaybeName());
          inside.push_back(argument);
        }
        MakeOps(*region, inside, depth - 1);
      }
      for (int j = Below(4); j > 0; --j) {
        TensorType type;
        ShardingSpec spec;
        MakeType(type, spec);
        Value* result = op->AddResult(type);
        result->set_spec(spec);
        result->set_name(MaybeName());
      }
      for (int j = 0; j < op->num_results(); ++j)
        visible.push_back(op->result(j));
    }
    if (visible.empty()) return;
    for (int i = Below(3); i > 0; --i)
      block.results().push_back(visible[Below(visible.size())]);
  }

  std::mt19937_64 random_;
  std::unique_ptr<Module> module_;
};

}  // namespace tp

#endif  // TP_TESTS_UNIT_RANDOM_MODULE_H_
