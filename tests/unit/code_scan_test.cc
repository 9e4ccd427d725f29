#include "frontend/code_scan.h"

#include "gmock/gmock.h"

namespace tp {
namespace {

using ::testing::HasSubstr;

absl::Status Scan(const std::string& body,
                  const std::vector<std::string>& allow = {}) {
  return ScanCode(
      "class M(Module):\n"
      "  __parameters__ = [\"w\", ]\n"
      "  w : Tensor\n"
      "  def forward(self: __torch__.M,\n"
      "    x: Tensor) -> Tensor:\n" +
          body,
      "m.pt: code/__torch__.py", allow);
}

void ExpectDenied(const std::string& body, const std::string& why) {
  const absl::Status status = Scan(body);
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied)
      << body << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << body;
}

TEST(CheckOperator, KnowsSafeUnsafeAndUnknown) {
  for (const char* name : {"aten::add", "prim::ListConstruct", "aten::saved"})
    EXPECT_TRUE(CheckOperator(name, {}).ok()) << name;
  for (const char* name : {"aten::save", "aten::from_file", "prim::PythonOp"})
    EXPECT_TRUE(absl::IsPermissionDenied(CheckOperator(name, {}))) << name;
  for (const char* name :
       {"torchvision::nms", "quantized::linear", "cuda::sync", "add"})
    EXPECT_TRUE(absl::IsUnimplemented(CheckOperator(name, {}))) << name;
  EXPECT_TRUE(CheckOperator("aten::save", {"aten::save"}).ok());
  EXPECT_TRUE(CheckOperator("aten::save", {"save"}).ok());
  EXPECT_TRUE(CheckOperator("torchvision::nms", {"torchvision::*"}).ok());
  EXPECT_FALSE(CheckOperator("torchvision::nms", {"torch::*", "nms"}).ok());
  EXPECT_FALSE(CheckOperator("aten::from_file", {"aten::save"}).ok());
}

TEST(ScanCode, AcceptsWhatModelsHold) {
  const absl::Status status = Scan(
      "    _0 = getattr(self.blocks, \"0\")\n"
      "    _1 = getattr(getattr(self.blocks, \"1\"), \"weight\")\n"
      "    _2 = ops.prim.NumToTensor(torch.size(x, 0))\n"
      "    _3 = \"torch.save('x') # not code\"\n"
      "    # torch.save(x, 'y')\n"
      "    saved = torch.mul(x, CONSTANTS.c0)\n"
      "    _4 = annotate(List[Tensor], [])\n"
      "    x0, y, = (_0).forward(x, 1., -1.5e-3, )\n"
      "    ops.prim.RaiseException(\"don't\", \"builtins.ValueError\")\n"
      "    _5 = torch.to(x, dtype=6, device=torch.device(\"cpu\"))\n"
      "    if torch.gt(1, 2):\n"
      "      pass\n"
      "    else:\n"
      "      x1 = x\n"
      "    return x\n"
      "  def pad(self: __torch__.M, mode: str=\"constant\", n: int=-3,\n"
      "    d: Device=torch.device(\"cpu\"), c: Tensor=CONSTANTS.c1,\n"
      "    v: Optional[float]=None, l: List[int]=annotate(List[int], [1, 2])) "
      "-> Tensor:\n"
      "    return torch.mul(x, 2)\n"
      "class Color(Enum):\n"
      "  RED = 1\n"
      "class P(NamedTuple):\n"
      "  a : int = 3\n"
      "  b : Final[List[str]] = [\"x\", \"y\"]\n");
  EXPECT_TRUE(status.ok()) << status;
}

TEST(ScanCode, FindsFileOperatorsInEveryForm) {
  for (const char* body : {
           "    torch.save(x, \"f\")\n",
           "    torch . save (x, \"f\")\n",
           "    _0 = [torch. # comment\n save(x, \"f\")]\n",
           "    ops.aten.save(x, \"f\")\n",
           "    torch.autograd.save(x, \"f\")\n",
           "    f = torch.save\n",
           "    x.save(\"f\")\n",
           "    (x).save(\"f\")\n",
           "    1..save(\"f\")\n",
           "    _0 = getattr(x, \"save\")\n",
           "    _0 = getattr(x, 'save')(\"f\")\n",
           "    _0 = torch.from_file(\"/etc/passwd\")\n",
           "    _0 = \"\"\"a\"b\"\"\", torch.save(x, \"f\")\n",
           "    _0 = 'a\\'b', torch.save(x, \"f\")\n",
           "    # type: (torch.save)\n",
       }) {
    ExpectDenied(body, "refused as unsafe");
    const absl::Status status = Scan(body, {"aten::save", "aten::from_file"});
    EXPECT_TRUE(status.ok()) << status;
  }
  EXPECT_THAT(
      std::string(Scan("    x = 1\n    torch.save(x, \"f\")\n").message()),
      HasSubstr("m.pt: code/__torch__.py:7"));
}

TEST(ScanCode, RefusesHiddenNames) {
  ExpectDenied("    t = torch\n", "other than to name");
  ExpectDenied("    t = ops.aten\n", "other than to name");
  ExpectDenied("    f(ops, x)\n", "other than to name");
  ExpectDenied("    _0 = getattr(torch, \"save\")\n", "refused");
  ExpectDenied("    _0 = getattr(x, \"sa\" \"ve\")\n", "not a string");
  ExpectDenied("    _0 = getattr(x, \"s\\x61ve\")\n", "escape");
  ExpectDenied("    _0 = getattr(x, name)\n", "not a string");
  ExpectDenied("    g = getattr\n", "other than to call");
}

TEST(ScanCode, RefusesWhatRunsWhileLoading) {
  ExpectDenied(
      "    pass\n  def __setstate__(self, s: int) -> NoneType:\n"
      "    pass\n",
      "__setstate__");
  ExpectDenied("    x = __torch__.torch.classes.a.B()\n", "torch.classes");
  for (const char* value :
       {"torch.zeros([9999999])", "__torch__.f(1)", "[0] * 99999999",
        "CONSTANTS.c0 + 1", "[i for i in [1, 2]]", "(1)(2)", "f\n(1)",
        "torch.device(\"cpu\") if True else f(1)", "1 .bit_length()"}) {
    ExpectDenied(std::string("    pass\n  def g(self: __torch__.M, y: int=") +
                     value + ") -> int:\n    return 1\n",
                 "computed while");
    ExpectDenied(std::string("    pass\nclass P(NamedTuple):\n  a : int = [") +
                     value + "]\n",
                 "computed while");
  }
  // Within a function the same is fine: it is not run.
  EXPECT_TRUE(Scan("    y = torch.zeros([9999999])\n").ok());
}

TEST(ScanCode, RefusesUnknownNamespaces) {
  const absl::Status status = Scan("    _0 = ops.evil.op(x)\n");
  EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--allow-op evil::op"));
  EXPECT_TRUE(Scan("    _0 = ops.evil.op(x)\n", {"evil::op"}).ok());
}

TEST(ScanCode, LimitsNesting) {
  std::string blocks;
  for (int i = 0; i < 200; ++i) blocks += std::string(4 + i, ' ') + "if x:\n";
  std::string sums = "    y = 1", negatives = "    y = [";
  for (int i = 0; i < 200; ++i) sums += " + 1";
  for (int i = 0; i < 2000; ++i) negatives += "-1, ";
  std::string attributes = "    y = x";
  for (int i = 0; i < 200; ++i) attributes += ".a";
  std::string calls = "    y = x";
  for (int i = 0; i < 200; ++i) calls += "(1, 2)";
  for (const std::string& body :
       {"    y = " + std::string(500, '(') + std::string(500, ')') + "\n",
        "    y = " + std::string(500, '-') + "1\n", blocks, sums + "\n",
        attributes + "\n", calls + "\n"}) {
    const absl::Status status = Scan(body);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << body << status;
  }
  EXPECT_TRUE(Scan(negatives + "]\n").ok());
}

TEST(ScanCode, RefusesSourceThatIsNone) {
  for (const std::string& body : std::vector<std::string>{
           "    y = \"open\n", "    y = '''open\n", "    y = (1\n",
           "    y = 1)\n", "    y = \\\n1\n", std::string("    y\0z", 7),
           "    y = \"\\", "    y = '"})
    EXPECT_TRUE(absl::IsInvalidArgument(Scan(body))) << body;
  EXPECT_TRUE(ScanCode("", "empty", {}).ok());
  EXPECT_TRUE(ScanCode("\n\n# nothing", "empty", {}).ok());
}

}  // namespace
}  // namespace tp
