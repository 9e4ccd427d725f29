#include "frontend/machine_reader.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "frontend/yaml_text.h"
#include "ir/file_digest.h"
#include "ir/status.h"
#include "ir/value_names.h"
#include "llvm/ADT/STLExtras.h"

namespace tp {
namespace {

namespace yaml = llvm::yaml;

struct Preset {
  const char* name;
  const char* text;
};

// Peaks are what makers print; kernels are taken to reach 0.7 of them, as in
// AutoParallel's cost model, and collectives 0.8 of a link: the figures below
// include that. Measure your own with tp-run calibrate.
constexpr Preset kPresets[] = {
    {"cpu-shm", R"(name: cpu-shm
# Round figures for two threads of a server CPU that share memory, below the
# peaks that tp-run calibrate finds on a 2-core AMD EPYC: 109e3 flops, 54e3 bytes
# of memory, 1.6 us per op, and 0.6 us and 75e3 bytes per collective.
flops_per_us: 50e3
memory_bytes_per_us: 10e3
kernel_us: 1
memory_bytes: 0              # not known; --memory says what there is
link: {latency_us: 5, bytes_per_us: 5e3}
)"},
    {"ethernet", R"(name: ethernet
# One H100 SXM per host, hosts on 100 Gb/s Ethernet.
flops_per_us: 692e6          # 989 Tflop/s dense bf16 (NVIDIA H100 data sheet) x 0.7
memory_bytes_per_us: 2.3e6   # 3.35 TB/s HBM3 (same) x 0.7
kernel_us: 7                 # launch to launch, AutoParallel's floor
memory_bytes: 80e9           # data sheet
link: {latency_us: 30, bytes_per_us: 10e3}   # 12.5 GB/s x 0.8; round trips of TCP or RoCE
)"},
    {"h100-nvlink", R"(name: h100-nvlink
# H100 SXM in one box.
flops_per_us: 692e6          # 989 Tflop/s dense bf16 (NVIDIA H100 data sheet) x 0.7
memory_bytes_per_us: 2.3e6   # 3.35 TB/s HBM3 (same) x 0.7
kernel_us: 7                 # launch to launch, AutoParallel's floor
memory_bytes: 80e9           # data sheet
link: {latency_us: 10, bytes_per_us: 360e3}  # 900 GB/s both ways (same), one way x 0.8
)"},
    {"pcie", R"(name: pcie
# H100 PCIe cards in one box without NVLink.
flops_per_us: 529e6          # 756 Tflop/s dense bf16 (NVIDIA H100 data sheet) x 0.7
memory_bytes_per_us: 1.4e6   # 2 TB/s HBM2e (same) x 0.7
kernel_us: 7                 # launch to launch, AutoParallel's floor
memory_bytes: 80e9           # data sheet
link: {latency_us: 15, bytes_per_us: 50e3}   # PCIe 5.0 x16: 63 GB/s one way (PCI-SIG) x 0.8
)"},
};

class MachineParser {
 public:
  MachineParser(llvm::StringRef text, const std::string& file)
      : text_(text, file) {
    machine_.name = file;
  }

  absl::StatusOr<Machine> Parse() {
    auto document = text_.stream().begin();
    if (document != text_.stream().end()) ReadRoot(document->getRoot());
    TP_RETURN_IF_ERROR(text_.status());
    return std::move(machine_);
  }

 private:
  void ReadRoot(yaml::Node* root) {
    if (root == nullptr || llvm::isa<yaml::NullNode>(root)) return;
    auto* map = llvm::dyn_cast<yaml::MappingNode>(root);
    if (map == nullptr)
      return text_.Fail(root, "a machine is a mapping from figures to numbers");
    for (yaml::KeyValueNode& entry : *map) {
      const std::string key = text_.Scalar(entry.getKey());
      yaml::Node* value = entry.getValue();
      if (!text_.ok()) return;
      if (key == "name") {
        machine_.name = text_.Scalar(value);
      } else if (key == "flops_per_us") {
        ReadFigure(value, machine_.flops_per_us);
      } else if (key == "memory_bytes_per_us") {
        ReadFigure(value, machine_.memory_bytes_per_us);
      } else if (key == "kernel_us") {
        ReadFigure(value, machine_.kernel_us);
      } else if (key == "memory_bytes") {
        ReadBytes(value);
      } else if (key == "link") {
        ReadLink(value, machine_.link);
      } else if (key == "axes") {
        ReadAxes(value);
      } else {
        Unknown(entry.getKey(), key,
                {"name", "flops_per_us", "memory_bytes_per_us", "kernel_us",
                 "memory_bytes", "link", "axes"});
      }
      if (!text_.ok()) return;
    }
  }

  void Unknown(yaml::Node* node, const std::string& key,
               const std::vector<std::string>& known) {
    text_.Fail(node, absl::StrCat("unknown figure \"", key,
                                  "\"; near names: ", NearNames(key, known)));
  }

  void ReadFigure(yaml::Node* node, double& figure) {
    const std::string text = text_.Scalar(node);
    if (!text_.ok()) return;
    if (!absl::SimpleAtod(text, &figure) || !std::isfinite(figure) ||
        figure <= 0)
      text_.Fail(node, absl::StrCat("\"", text, "\" is no positive number"));
  }

  // 80e9, 80GB, 74GiB; 0 is not known.
  void ReadBytes(yaml::Node* node) {
    const std::string text = text_.Scalar(node);
    if (!text_.ok()) return;
    llvm::StringRef number = text;
    double unit = 1;
    if (number.consume_back("GiB"))
      unit = 1 << 30;
    else if (number.consume_back("MiB"))
      unit = 1 << 20;
    else if (number.consume_back("GB"))
      unit = 1e9;
    double bytes = 0;
    if (!absl::SimpleAtod(number.rtrim().str(), &bytes) || !(bytes >= 0) ||
        bytes * unit > 9e18)
      return text_.Fail(node, absl::StrCat("\"", text,
                                           "\" is no size; write 80e9, 80GB "
                                           "or 74GiB"));
    machine_.memory_bytes = static_cast<int64_t>(bytes * unit);
  }

  void ReadLink(yaml::Node* node, Link& link) {
    auto* map = llvm::dyn_cast_or_null<yaml::MappingNode>(node);
    if (map == nullptr)
      return text_.Fail(node, "a link is {latency_us: A, bytes_per_us: B}");
    for (yaml::KeyValueNode& entry : *map) {
      const std::string key = text_.Scalar(entry.getKey());
      if (!text_.ok()) return;
      if (key == "latency_us")
        ReadFigure(entry.getValue(), link.latency_us);
      else if (key == "bytes_per_us")
        ReadFigure(entry.getValue(), link.bytes_per_us);
      else
        Unknown(entry.getKey(), key, {"latency_us", "bytes_per_us"});
      if (!text_.ok()) return;
    }
  }

  void ReadAxes(yaml::Node* node) {
    auto* map = llvm::dyn_cast_or_null<yaml::MappingNode>(node);
    if (map == nullptr)
      return text_.Fail(node, "axes are a mapping from names to links");
    for (yaml::KeyValueNode& entry : *map) {
      const std::string axis = text_.Scalar(entry.getKey());
      if (!text_.ok()) return;
      Link link = machine_.link;
      ReadLink(entry.getValue(), link);
      if (!text_.ok()) return;
      machine_.axes[axis] = link;
    }
  }

  YamlText text_;
  Machine machine_;
};

}  // namespace

std::vector<std::string> MachinePresets() {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) names.push_back(preset.name);
  return names;
}

std::string MachinePresetText(const std::string& name) {
  for (const Preset& preset : kPresets)
    if (name == preset.name) return preset.text;
  return "";
}

absl::StatusOr<Machine> ParseMachine(llvm::StringRef text,
                                     const std::string& file) {
  return MachineParser(text, file).Parse();
}

absl::StatusOr<Machine> ReadMachine(const std::string& preset_or_path) {
  const std::string preset = MachinePresetText(preset_or_path);
  if (!preset.empty()) return ParseMachine(preset, preset_or_path);
  absl::StatusOr<std::string> text = ReadTextFile(preset_or_path);
  if (!text.ok() && preset_or_path.find('/') == std::string::npos &&
      preset_or_path.find('.') == std::string::npos)
    return absl::NotFoundError(absl::StrCat(
        "there is no machine \"", preset_or_path,
        "\"; near names: ", NearNames(preset_or_path, MachinePresets()),
        "; or give a file, as tp-run calibrate -o FILE writes one"));
  TP_RETURN_IF_ERROR(text.status());
  return ParseMachine(*text, preset_or_path);
}

}  // namespace tp
