#include "frontend/machine_reader.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tp {
namespace {

using ::testing::HasSubstr;

TEST(MachineReaderTest, ReadsFiguresAndLinks) {
  absl::StatusOr<Machine> machine = ParseMachine(R"(name: two boxes
flops_per_us: 692e6
memory_bytes: 74GiB
link: {latency_us: 10, bytes_per_us: 360e3}
axes:
  dp: {bytes_per_us: 12.5e3}
)",
                                                 "m.yaml");
  ASSERT_TRUE(machine.ok()) << machine.status();
  EXPECT_EQ(machine->name, "two boxes");
  EXPECT_EQ(machine->flops_per_us, 692e6);
  EXPECT_EQ(machine->memory_bytes, 74ll << 30);
  EXPECT_EQ(machine->kernel_us, Machine().kernel_us);
  EXPECT_EQ(machine->LinkOf("tp"), (Link{10, 360e3}));
  EXPECT_EQ(machine->LinkOf("dp"), (Link{10, 12.5e3}));
}

TEST(MachineReaderTest, WhatIsWrittenIsRead) {
  Machine machine;
  machine.name = "box";
  machine.flops_per_us = 1.0 / 3 * 1e6;
  machine.kernel_us = 1e-3;
  machine.memory_bytes = 123456789012;
  machine.axes["dp"] = {30, 1250};
  absl::StatusOr<Machine> again = ParseMachine(MachineYaml(machine), "again");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, machine);
}

TEST(MachineReaderTest, EveryPresetIsAMachine) {
  for (const std::string& name : MachinePresets()) {
    absl::StatusOr<Machine> machine = ReadMachine(name);
    ASSERT_TRUE(machine.ok()) << machine.status();
    EXPECT_EQ(machine->name, name);
  }
  EXPECT_EQ(*ReadMachine("cpu-shm"), Machine());
}

TEST(MachineReaderTest, RefusesWithPlaceAndNearNames) {
  const auto error = [](const char* text) {
    absl::StatusOr<Machine> machine = ParseMachine(text, "bad.yaml");
    EXPECT_EQ(machine.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(machine.status().message());
  };
  EXPECT_THAT(error("flop_per_us: 1\n"),
              HasSubstr("near names: \"flops_per_us\""));
  EXPECT_THAT(error("kernel_us: 0\n"), HasSubstr("no positive number"));
  EXPECT_THAT(error("kernel_us: nan\n"), HasSubstr("no positive number"));
  EXPECT_THAT(error("memory_bytes: 80TB\n"), HasSubstr("is no size"));
  EXPECT_THAT(error("link: 5\n"), HasSubstr("bad.yaml:1:"));
  EXPECT_THAT(error("axes: {tp: {speed: 1}}\n"), HasSubstr("unknown figure"));
  EXPECT_THAT(error("- 1\n"), HasSubstr("is a mapping"));
  EXPECT_THAT(std::string(ReadMachine("h100").status().message()),
              HasSubstr("near names: \"h100-nvlink\""));
}

}  // namespace
}  // namespace tp
