#include "ir/mesh.h"

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "llvm/ADT/StringExtras.h"

namespace tp {
namespace {

// More ranks than this is a typing error, not a machine.
constexpr int64_t kMaxRanks = 1 << 20;

bool IsIdentifier(llvm::StringRef name) {
  if (name.empty() || llvm::isDigit(name.front())) return false;
  return llvm::all_of(name,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; });
}

absl::Status MeshError(llvm::StringRef text, const std::string& why) {
  return absl::InvalidArgumentError(
      absl::StrCat("mesh '", text.str(), "': ", why,
                   "; write axes as name=size, as in tp=2 or dp=2,tp=4"));
}

}  // namespace

absl::StatusOr<Mesh> Mesh::Parse(llvm::StringRef text) {
  std::vector<MeshAxis> axes;
  int64_t num_ranks = 1;
  llvm::SmallVector<llvm::StringRef, 4> parts;
  text.split(parts, ',');
  for (llvm::StringRef part : parts) {
    const auto [name, digits] = part.split('=');
    MeshAxis axis{name.trim().str(), 0};
    if (!IsIdentifier(axis.name))
      return MeshError(
          text, absl::StrCat("'", axis.name, "' is not a name for an axis"));
    if (digits.trim().getAsInteger(10, axis.size) || axis.size < 1)
      return MeshError(text,
                       absl::StrCat("the size of axis '", axis.name,
                                    "' must be an integer of at least 1"));
    for (const MeshAxis& other : axes)
      if (other.name == axis.name)
        return MeshError(text,
                         absl::StrCat("axis '", axis.name, "' appears twice"));
    if (axis.size > kMaxRanks / num_ranks)
      return MeshError(text, absl::StrCat("more than ", kMaxRanks, " ranks"));
    num_ranks *= axis.size;
    axes.push_back(std::move(axis));
  }
  return Mesh(std::move(axes));
}

int Mesh::AxisIndex(llvm::StringRef name) const {
  for (int i = 0; i < ndim(); ++i)
    if (axes_[i].name == name) return i;
  return -1;
}

int64_t Mesh::num_ranks() const {
  int64_t product = 1;
  for (const MeshAxis& axis : axes_) product *= axis.size;
  return product;
}

llvm::SmallVector<int64_t, 2> Mesh::Coordinates(int64_t rank) const {
  llvm::SmallVector<int64_t, 2> coordinates(axes_.size());
  for (int i = ndim() - 1; i >= 0; --i) {
    coordinates[i] = rank % axes_[i].size;
    rank /= axes_[i].size;
  }
  return coordinates;
}

std::vector<int64_t> Mesh::Group(int axis, int64_t rank) const {
  int64_t stride = 1;
  for (int i = axis + 1; i < ndim(); ++i) stride *= axes_[i].size;
  const int64_t first = rank - Coordinates(rank)[axis] * stride;
  std::vector<int64_t> group;
  for (int64_t i = 0; i < axes_[axis].size; ++i)
    group.push_back(first + i * stride);
  return group;
}

std::string Mesh::ToString() const {
  std::string text = "[";
  for (const MeshAxis& axis : axes_)
    absl::StrAppend(&text, text.size() == 1 ? "" : ", ", axis.name, ": ",
                    axis.size);
  return text + "]";
}

}  // namespace tp
