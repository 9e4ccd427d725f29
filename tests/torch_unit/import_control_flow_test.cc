// Control flow that depends on data: what the importer makes of it, run on one
// rank, equals LibTorch bit for bit, whichever way the data sends it.
#include "gmock/gmock.h"
#include "import_test_util.h"
#include "ir/status.h"

namespace tp::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

at::Tensor Number(int64_t value) { return at::scalar_tensor(value, at::kLong); }

// As ExpectSameAsTorch where outputs are tensors and numbers.
void ExpectSame(const std::string& source,
                const std::vector<NamedTensors>& examples) {
  ExpectSameAsTorch(Script(source), examples);
}

const std::vector<NamedTensors>& Numbers() {
  static const auto* const examples = new std::vector<NamedTensors>{
      {{"x", at::arange(12, at::kFloat).reshape({3, 4})}, {"n", Number(3)}},
      {{"x", at::full({3, 4}, -1.5)}, {"n", Number(0)}},
      {{"x", at::ones({3, 4})}, {"n", Number(7)}},
      {{"x", at::zeros({3, 4})}, {"n", Number(-2)}},
  };
  return *examples;
}

absl::Status Refusal(const std::string& source) {
  return Import(Script(source), {Numbers()[0]}).status();
}

TEST(ImportControlFlowAtRunTimeTest, BranchesMeet) {
  ExpectSame(R"(
def forward(self, x: Tensor, n: Tensor):
    k = int(n)
    y = x
    scale = 2
    if k > 2:
        y = x + 1
        scale = 5
    elif k > 0:
        y = x.abs()
    else:
        y = x - k
    return y * scale, x
)",
             Numbers());
}

TEST(ImportControlFlowAtRunTimeTest, WritesInBranchesReachAllViews) {
  ExpectSame(R"(
def forward(self, x: Tensor, n: Tensor):
    y = x * 2
    row = y[1]
    if bool(n > 1):
        row.add_(1)
        y[:, 0] = 9
    else:
        y.mul_(3)
    return y, row, y.t()
)",
             Numbers());
}

TEST(ImportControlFlowAtRunTimeTest, WritesInLoopsReachAllViews) {
  ExpectSame(R"(
def forward(self, x: Tensor, n: Tensor):
    y = x * 2
    row = y[1]
    last = row
    for i in range(int(n)):
        row += i
        y[:, i % 4] *= 2
        last = y[2] + row
    return y, row, last
)",
             Numbers());
}

TEST(ImportControlFlowAtRunTimeTest, CarriedTensorsChangePlaces) {
  ExpectSame(R"(
def forward(self, x: Tensor, n: Tensor):
    a = x
    b = x + 1
    i = 0
    while i < int(n):
        a, b = b, a * 2
        i += 1
    return a, b, x
)",
             Numbers());
}

TEST(ImportControlFlowAtRunTimeTest, BreakAndContinue) {
  ExpectSame(R"(
def forward(self, x: Tensor, n: Tensor):
    total = torch.zeros_like(x)
    for i in range(10):
        if i == int(n):
            continue
        total = total + x * i
        if bool(total.sum() > 30):
            break
    return total
)",
             Numbers());
}

TEST(ImportControlFlowAtRunTimeTest, ReturnsFromInside) {
  ExpectSame(R"(
def forward(self, x: Tensor, n: Tensor):
    for i in range(int(n)):
        for j in range(4):
            if bool(x[0, j] * i > 3):
                return x + i, x * j
        if i == 5:
            return x, x
    return -x, x
)",
             Numbers());
}

TEST(ImportControlFlowAtRunTimeTest, ListsGrow) {
  ExpectSame(R"(
def forward(self, x: Tensor, n: Tensor):
    rows = [x[0], x[1]]
    nothing: List[Tensor] = []
    for i in range(int(n)):
        rows.append(rows[-1] + rows[i])
        if i % 2 == 0:
            nothing.append(x * i)
    count = len(nothing)
    both = torch.cat(rows)
    if count > 1:
        both = both + count
    return both, torch.stack(rows, 1), rows[0], rows[-2], rows[1:][0]
)",
             {Numbers()[0], Numbers()[2], Numbers()[1]});
}

TEST(ImportControlFlowAtRunTimeTest, ListsThatStayInStep) {
  ExpectSame(R"(
def forward(self, x: Tensor, n: Tensor):
    pair = [x, x + 1]
    other = pair
    table = {"a": x, "b": x}
    for i in range(int(n)):
        pair[0] = pair[1] * 2
        table["b"] = pair[0] - i
        if i > 1:
            pair[1] = x
    return other[0], other[1], table["a"] + table["b"]
)",
             Numbers());
}

TEST(ImportControlFlowAtRunTimeTest, NumbersKeepTheirKinds) {
  ExpectSame(R"(
def forward(self, x: Tensor, n: Tensor):
    k = int(n)
    f = float(n) / 4
    half = k / 2
    whole = k // 2
    rest = (k * 7) % 3
    if k > 1:
        half = half + 1
    return (x * half, x * whole + rest, x.long() + k, torch.tensor(half),
            torch.tensor(k), x - f, 3 - x * k, x > f, x.long() * f)
)",
             Numbers());
}

TEST(ImportControlFlowAtRunTimeTest, EqualTensorsDecide) {
  ExpectSame(R"(
def forward(self, x: Tensor, n: Tensor):
    if torch.equal(x, torch.ones_like(x)):
        return x * 5
    return x
)",
             Numbers());
}

TEST(ImportControlFlowAtRunTimeTest, ConditionsAreTensorsOfOneElement) {
  ExpectSame(R"(
def forward(self, x: Tensor, n: Tensor):
    if x[:1, :1] > 0.5:
        x = x + 1
    return x
)",
             Numbers());
}

TEST(ImportControlFlowAtRunTimeTest, ExceptionsCarryTheirMessage) {
  const auto module = Script(R"(
def forward(self, x: Tensor, n: Tensor):
    assert bool(n > 0), "n has to be positive"
    return x * 2
)");
  auto model = Import(module, {Numbers()[0]});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(RunImported(*model, Numbers()[0]).ok());
  const absl::Status status = RunImported(*model, Numbers()[1]).status();
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kRunError);
  EXPECT_THAT(status.ToString(),
              AllOf(HasSubstr("n has to be positive"), HasSubstr(":3")));
}

TEST(ImportControlFlowAtRunTimeTest, NothingIsLeftOfOtherWaysToDecide) {
  auto model = Import(Script(R"(
def forward(self, x: Tensor, n: Tensor):
    unused = x * int(n)
    if bool(n > 100):
        unused = unused + 1
    return x
)"),
                      {Numbers()[0]});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(CountOps(*model, "tp.if"), 0) << Print(*model->module);
  EXPECT_EQ(CountOps(*model, "aten.mul"), 0) << Print(*model->module);
}

TEST(ImportControlFlowAtRunTimeTest, RefusalsNameTheLine) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"(
def forward(self, x: Tensor, n: Tensor):
    x = x * 2
    y = x.t().reshape(-1)
    if bool(n > 0):
        y.add_(1)
    return x
)",
       "may or may not share memory"},
      {R"(
def forward(self, x: Tensor, n: Tensor):
    y = x
    if bool(n > 0):
        y = x[0]
    return y * 2
)",
       "f32[3,4]"},
      {R"(
def forward(self, x: Tensor, n: Tensor):
    rows = [x, x[0]]
    for i in range(int(n)):
        rows.append(x)
    return rows[-1]
)",
       "not all alike"},
      {R"(
def forward(self, x: Tensor, n: Tensor):
    table = {"a": x}
    if bool(n > 0):
        table["b"] = x
    return table["a"]
)",
       "other keys"},
      {R"(
def forward(self, x: Tensor, n: Tensor):
    return x.reshape(int(n), -1)
)",
       "depends on data"},
  };
  for (const auto& [source, message] : kCases) {
    const absl::Status status = Refusal(source);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_THAT(status.ToString(), HasSubstr(message));
    EXPECT_THAT(status.ToString(), HasSubstr("<string>:")) << source;
  }
}

}  // namespace
}  // namespace tp::testing
