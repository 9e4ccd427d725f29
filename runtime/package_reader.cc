#include "runtime/package_reader.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/package_manifest.h"
#include "ir/schedule.h"
#include "ir/status.h"
#include "ir/text.h"
#include "llvm/Support/JSON.h"

namespace tp {
namespace {

namespace json = llvm::json;

class Reader {
 public:
  Reader(const std::string& directory, const OpenOptions& options)
      : options_(options) {
    package_.directory = directory;
  }

  absl::StatusOr<Package> Read() {
    TP_RETURN_IF_ERROR(ReadManifest());
    const int64_t ranks = package_.mesh.num_ranks();
    package_.programs.resize(ranks);
    package_.weights.resize(ranks);
    std::vector<absl::Status> statuses(ranks);
    // As many threads as help, and as few as the system will give.
    std::atomic<int64_t> next{0};
    const auto read = [&] {
      for (int64_t rank; (rank = next.fetch_add(1)) < ranks;) {
        statuses[rank] = ReadRank(rank);
      }
    };
    const int64_t helpers =
        std::min<int64_t>(ranks, std::thread::hardware_concurrency()) - 1;
    std::vector<std::thread> threads;
    threads.reserve(std::max<int64_t>(helpers, 0));
    try {
      for (int64_t i = 0; i < helpers; ++i) threads.emplace_back(read);
    } catch (const std::system_error&) {
    }
    read();
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : statuses) TP_RETURN_IF_ERROR(status);
    TP_RETURN_IF_ERROR(CheckSchedule());
    return std::move(package_);
  }

 private:
  absl::Status ReadManifest() {
    TP_ASSIGN_OR_RETURN(manifest_, PackageManifest::Read(package_.directory));
    const json::Object& manifest = manifest_->root();
    package_.tool_version =
        manifest.getString("tool_version").value_or("").str();
    package_.torch_version =
        manifest.getString("torch_version").value_or("").str();
    TP_RETURN_IF_ERROR(ReadMesh(manifest));
    schedule_ = manifest.getString("schedule_sha256").value_or("").str();
    if (schedule_.empty()) {
      return manifest_->Bad("'schedule_sha256' is missing");
    }
    if (const json::Array* notes = manifest.getArray("notes")) {
      for (const json::Value& note : *notes) {
        if (auto line = note.getAsString()) {
          package_.notes.push_back(line->str());
        }
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadMesh(const json::Object& manifest) {
    const json::Array* axes = manifest.getArray("mesh");
    if (axes == nullptr || axes->empty())
      return manifest_->Bad("'mesh' is missing");
    std::vector<MeshAxis> list;
    int64_t ranks = 1;
    for (const json::Value& value : *axes) {
      const json::Object* axis = value.getAsObject();
      auto name = axis ? axis->getString("name") : std::nullopt;
      auto size = axis ? axis->getInteger("size") : std::nullopt;
      if (!name || !size || *size < 1 || *size > 1024) {
        return manifest_->Bad(
            "an axis of 'mesh' needs a name and a size of 1 to 1024");
      }
      ranks *= *size;
      if (ranks > 1024)
        return manifest_->Bad("the mesh has more than 1024 ranks");
      list.push_back({name->str(), *size});
    }
    package_.mesh = Mesh(std::move(list));
    return absl::OkStatus();
  }

  absl::Status ReadRank(int64_t rank) {
    absl::Status status;
    try {
      status = ReadProgram(rank);
      if (status.ok()) status = ReadWeights(rank);
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(
          absl::StrCat("out of memory while reading rank ", rank));
    }
    if (!absl::IsNotFound(status)) return status;
    return absl::NotFoundError(
        absl::StrCat(status.message(), "; ", package_.directory,
                     " is not complete: copy the whole folder, or compile "
                     "again"));
  }

  absl::Status ReadProgram(int64_t rank) {
    const std::string name = absl::StrCat("rank", rank, ".tpir");
    TP_ASSIGN_OR_RETURN(std::string text, manifest_->ReadText(name));
    TP_ASSIGN_OR_RETURN(std::shared_ptr<Module> module,
                        Parse(text, manifest_->Path(name)));
    if (module->rank() != std::optional<int64_t>(rank)) {
      return manifest_->Differs(
          name,
          absl::StrCat("it is the program of ",
                       module->rank() ? absl::StrCat("rank ", *module->rank())
                                      : "no rank"));
    }
    if (!(module->mesh() == package_.mesh)) {
      return manifest_->Differs(
          name, absl::StrCat("its mesh is ", module->mesh().ToString(),
                             ", not ", package_.mesh.ToString()));
    }
    package_.programs[rank] = std::move(module);
    return absl::OkStatus();
  }

  absl::Status ReadWeights(int64_t rank) {
    const std::string name = absl::StrCat("rank", rank, ".safetensors");
    TP_RETURN_IF_ERROR(
        manifest_->CheckFile(name, /*content=*/options_.hash_weights));
    TP_ASSIGN_OR_RETURN(package_.weights[rank],
                        SafetensorsFile::Open(manifest_->Path(name)));
    return absl::OkStatus();
  }

  absl::Status CheckSchedule() const {
    std::vector<const Module*> modules;
    for (const auto& program : package_.programs) {
      modules.push_back(program.get());
    }
    TP_ASSIGN_OR_RETURN(std::string hash, HashSchedules(modules));
    if (hash == schedule_) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        package_.directory,
        ": the collectives of its programs are not those that were proven to "
        "fit together (schedule hash ",
        hash.substr(0, 12), ", manifest ", schedule_.substr(0, 12),
        "). Compile again."));
  }

  OpenOptions options_;
  Package package_;
  std::optional<PackageManifest> manifest_;
  std::string schedule_;
};

}  // namespace

absl::StatusOr<Package> OpenPackage(const std::string& directory,
                                    const OpenOptions& options) {
  return Reader(directory, options).Read();
}

}  // namespace tp
