#include "gtest/gtest.h"
#include "ir/builder.h"
#include "ir/text.h"

namespace tp {
namespace {

ArgumentInfo Input(const char* name) {
  return {ArgumentKind::kInput, name, {}};
}

const TensorType kType{DType::kF32, {2}};

TEST(PrinterTest, EmptyModule) { EXPECT_EQ(Print(Module()), "tpir 1\n"); }

TEST(PrinterTest, NamesAreSanitizedAndUnique) {
  Module module;
  Function* f = module.AddFunction("f");
  f->AddArgument(kType, Input("x"));
  f->AddArgument(kType, Input("a b"))->set_name("x");
  Builder builder(module, f->body());
  Value* x = f->body().arguments()[0].get();
  for (const char* name : {"x_1", "7", "wte.weight", "", "-", ".x", "x"})
    builder.CreateTyped("test.op", {x}, {}, {kType})->result()->set_name(name);
  EXPECT_EQ(Print(module), R"(tpir 1
func @f(%x: f32[2], %x_1: f32[2] input "a b") -> () {
  %x_1_1 = test.op(%x) : f32[2]
  %_7 = test.op(%x) : f32[2]
  %wte.weight = test.op(%x) : f32[2]
  %0 = test.op(%x) : f32[2]
  %_ = test.op(%x) : f32[2]
  %_x = test.op(%x) : f32[2]
  %x_2 = test.op(%x) : f32[2]
  return
}
)");
}

TEST(PrinterTest, ManyOrLongArgumentsGetALineEach) {
  Module module;
  Function* few = module.AddFunction("few");
  for (const char* name : {"a", "b", "c"}) few->AddArgument(kType, Input(name));
  Function* many = module.AddFunction("many");
  for (const char* name : {"a", "b", "c", "d"})
    many->AddArgument(kType, Input(name));
  Function* weight = module.AddFunction("weight");
  weight->AddArgument(kType, {ArgumentKind::kBuffer, "w", {}});
  EXPECT_EQ(Print(module), R"(tpir 1
func @few(%a: f32[2], %b: f32[2], %c: f32[2]) -> () {
  return
}

func @many(
    %a: f32[2],
    %b: f32[2],
    %c: f32[2],
    %d: f32[2]) -> () {
  return
}

func @weight(
    %w: f32[2] buffer "w") -> () {
  return
}
)");
}

TEST(PrinterTest, OneOpShowsTypesOfItsOperands) {
  Module module;
  Function* f = module.AddFunction("f");
  Value* x = f->AddArgument(kType, Input("x"));
  Builder builder(module, f->body());
  builder.set_location({"wte", "m.py", 3, 0});
  Op* a = builder.CreateTyped("test.a", {x}, {}, {kType});
  Op* b = builder.CreateTyped(
      "test.b", {std::vector<Value*>{x, a->result()}, (Value*)nullptr},
      {{"dim", 1}}, {kType, kType});
  b->result(1)->set_spec({Placement::Partial()});
  EXPECT_EQ(Print(*b),
            "test.b([%x: f32[2], %?: f32[2]], none) {dim = 1} : f32[2], "
            "f32[2] <P(sum)>  loc \"m.py\":3 in \"wte\"");
}

TEST(PrinterTest, LocationsLeaveOutWhatIsNotKnown) {
  Module module;
  Function* f = module.AddFunction("f");
  Builder builder(module, f->body());
  const Location locations[] = {{},
                                {"m", "", 0, 0},
                                {"", "f.py", 0, 0},
                                {"m", "f", 2, 0},
                                {"", "f\"", 2, 3},
                                {"", "", 2, 3}};
  for (const Location& location : locations) {
    builder.set_location(location);
    builder.CreateTyped("test.op", {}, {}, {});
  }
  EXPECT_EQ(Print(module), R"(tpir 1
func @f() -> () {
  test.op()
  test.op()  loc in "m"
  test.op()  loc "f.py"
  test.op()  loc "f":2 in "m"
  test.op()  loc "f\"":2:3
  test.op()
  return
}
)");
}

}  // namespace
}  // namespace tp
