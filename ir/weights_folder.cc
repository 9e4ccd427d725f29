#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/file_digest.h"
#include "ir/json_nesting.h"
#include "ir/safetensors.h"
#include "ir/status.h"
#include "ir/weights_by_name.h"
#include "llvm/Support/JSON.h"

namespace tp {
namespace {

namespace fs = std::filesystem;

constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr int kMaxNesting = 16;

// The weights of several files.
class WeightFolder : public WeightSource {
 public:
  explicit WeightFolder(std::string folder) : folder_(std::move(folder)) {}

  // kInvalidArgument: a name that an earlier file has.
  absl::Status AddFile(const std::string& name) {
    TP_ASSIGN_OR_RETURN(
        std::unique_ptr<SafetensorsFile> file,
        SafetensorsFile::Open((fs::path(folder_) / name).string()));
    for (const WeightInfo& weight : file->weights()) {
      if (!Add(weight))
        return absl::InvalidArgumentError(
            absl::StrCat(folder_, ": \"", weight.name, "\" is in two files, ",
                         names_[file_of_[weight.name]], " and ", name));
      file_of_[weight.name] = files_.size();
    }
    files_.push_back(std::move(file));
    names_.push_back(name);
    return absl::OkStatus();
  }

  // The file a weight is in; null if there is none.
  const std::string* FileOf(llvm::StringRef name) const {
    auto it = file_of_.find(name);
    return it == file_of_.end() ? nullptr : &names_[it->second];
  }

  absl::StatusOr<Bytes> View(const WeightInfo& weight) const override {
    auto it = file_of_.find(weight.storage);
    if (it == file_of_.end())
      return absl::NotFoundError(
          absl::StrCat(folder_, ": no tensor ", weight.storage));
    return files_[it->second]->View(weight);
  }

 private:
  std::string folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<std::string> names_;  // of the files
  llvm::StringMap<size_t> file_of_;
};

// Weight names by file name.
absl::StatusOr<std::map<std::string, std::vector<std::string>>> ReadIndex(
    const std::string& path) {
  TP_ASSIGN_OR_RETURN(std::string text, ReadTextFile(path));
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
  };
  if (NestedTooDeep(text, kMaxNesting))
    return error("its JSON is nested too deeply");
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(text);
  if (!parsed)
    return error(absl::StrCat("no JSON: ", llvm::toString(parsed.takeError())));
  const llvm::json::Object* object = parsed->getAsObject();
  const llvm::json::Object* map =
      object ? object->getObject("weight_map") : nullptr;
  if (map == nullptr) return error("it has no 'weight_map'");
  std::map<std::string, std::vector<std::string>> names;
  for (const auto& [name, value] : *map) {
    const auto file = value.getAsString();
    // Other folders are none of ours.
    if (!file || file->empty() || file->contains('/') || *file == "..")
      return error(absl::StrCat("\"", llvm::StringRef(name).str(),
                                "\" is not in a file of this folder"));
    names[file->str()].push_back(llvm::StringRef(name).str());
  }
  return names;
}

absl::StatusOr<std::unique_ptr<WeightSource>> OpenIndexed(
    const std::string& folder, const std::string& index) {
  TP_ASSIGN_OR_RETURN(auto names, ReadIndex(index));
  auto weights = std::make_unique<WeightFolder>(folder);
  std::set<std::string> listed;
  for (const auto& [file, of_file] : names) {
    TP_RETURN_IF_ERROR(Annotate(weights->AddFile(file), index));
    listed.insert(of_file.begin(), of_file.end());
  }
  for (const auto& [file, of_file] : names)
    for (const std::string& name : of_file) {
      const std::string* found = weights->FileOf(name);
      if (found == nullptr || *found != file)
        return absl::InvalidArgumentError(
            absl::StrCat(index, ": \"", name, "\" is listed in ", file,
                         ", but it is ", found ? "in " + *found : "not there"));
    }
  for (const WeightInfo& weight : weights->weights())
    if (listed.count(weight.name) == 0)
      return absl::InvalidArgumentError(
          absl::StrCat(index, ": \"", weight.name, "\" of ",
                       *weights->FileOf(weight.name), " is not listed"));
  return weights;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightSource>> OpenWeights(
    const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return SafetensorsFile::Open(path);
  const fs::path folder = path;
  if (fs::exists(folder / "checkpoint.json", error) ||
      fs::exists(folder / "latest", error))
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " is a checkpoint; make one ordinary file of it with tp-ckpt "
        "export"));
  if (fs::exists(folder / "manifest.json", error) &&
      fs::exists(folder / "rank0.safetensors", error))
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " is a package, whose weights are split; give the original "
        "safetensors file or folder"));
  const fs::path index = folder / kIndexName;
  if (fs::exists(index, error)) return OpenIndexed(path, index.string());
  std::vector<std::string> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, error))
    if (entry.path().extension() == ".safetensors")
      files.push_back(entry.path().filename().string());
  if (files.empty())
    return absl::NotFoundError(absl::StrCat(path, " holds neither ", kIndexName,
                                            " nor a .safetensors file"));
  std::sort(files.begin(), files.end());
  auto weights = std::make_unique<WeightFolder>(path);
  for (const std::string& file : files)
    TP_RETURN_IF_ERROR(weights->AddFile(file));
  return weights;
}

}  // namespace tp
