// The mesh: the devices as an array with named axes.
#ifndef TP_IR_MESH_H_
#define TP_IR_MESH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

struct MeshAxis {
  std::string name;
  int64_t size = 1;

  friend bool operator==(const MeshAxis&, const MeshAxis&) = default;
};

// Axes from major to minor: rank = coordinate[0] * size[1] * ... + ... .
// Prints as: mesh @m = [dp: 2, tp: 4]
class Mesh {
 public:
  Mesh() = default;
  explicit Mesh(std::vector<MeshAxis> axes) : axes_(std::move(axes)) {}
  // "tp=2" or "dp=2,tp=4"; sizes >= 1, names unique identifiers.
  static absl::StatusOr<Mesh> Parse(llvm::StringRef text);

  int ndim() const { return static_cast<int>(axes_.size()); }
  const MeshAxis& axis(int index) const { return axes_[index]; }
  const std::vector<MeshAxis>& axes() const { return axes_; }
  // Index of the axis, -1 if there is none of that name.
  int AxisIndex(llvm::StringRef name) const;
  // Number of devices.
  int64_t num_ranks() const;
  // Coordinate of `rank` on each axis.
  llvm::SmallVector<int64_t, 2> Coordinates(int64_t rank) const;
  // The ranks that differ from `rank` only on `axis`, in axis order.
  std::vector<int64_t> Group(int axis, int64_t rank) const;

  std::string ToString() const;  // "[dp: 2, tp: 4]"
  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  std::vector<MeshAxis> axes_;
};

}  // namespace tp

#endif  // TP_IR_MESH_H_
