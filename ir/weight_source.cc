#include "ir/weight_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace tp {
namespace {

constexpr int64_t kTile = 32;

// A dim of the copy: which of its indices are taken and how far apart they
// lie in the source (elements).
struct CopyDim {
  DimIntervals intervals;
  int64_t size = 0;
  int64_t stride = 0;
  int64_t extent = 0;      // indices taken
  int64_t out_stride = 0;  // elements

  bool IsFull() const {
    return intervals.size() == 1 && intervals[0].extent == size;
  }
};

// Source offsets (elements) of the indices taken.
std::vector<int64_t> Offsets(const CopyDim& dim) {
  std::vector<int64_t> out;
  out.reserve(static_cast<size_t>(dim.extent));
  for (const Interval& part : dim.intervals)
    for (int64_t i = 0; i < part.extent; ++i)
      out.push_back((part.start + i) * dim.stride);
  return out;
}

// Fewer and longer dims that copy the same: single indices go into `base`,
// and a dim taken whole that continues the one before it is merged into that.
// E.g. rows 2..4 of a contiguous [8, 6] become one interval of 12 elements.
std::vector<CopyDim> Simplify(llvm::ArrayRef<int64_t> sizes,
                              llvm::ArrayRef<int64_t> strides,
                              llvm::ArrayRef<DimIntervals> block,
                              int64_t& base) {
  std::vector<CopyDim> dims;
  for (size_t d = 0; d < block.size(); ++d) {
    CopyDim dim;
    dim.size = sizes[d];
    dim.stride = strides[d];
    for (const Interval& part : block[d]) {
      if (part.extent == 0) continue;
      dim.extent += part.extent;
      Interval* last = dim.intervals.empty() ? nullptr : &dim.intervals.back();
      if (last != nullptr && last->start + last->extent == part.start)
        last->extent += part.extent;
      else
        dim.intervals.push_back(part);
    }
    if (dim.extent == 1) {
      base += dim.intervals[0].start * dim.stride;
      continue;
    }
    CopyDim* outer = dims.empty() ? nullptr : &dims.back();
    if (outer != nullptr && dim.IsFull() &&
        outer->stride == dim.size * dim.stride) {
      for (Interval& part : outer->intervals) {
        part.start *= dim.size;
        part.extent *= dim.size;
      }
      outer->size *= dim.size;
      outer->extent *= dim.size;
      outer->stride = dim.stride;
      continue;
    }
    dims.push_back(std::move(dim));
  }
  int64_t out_stride = 1;
  for (CopyDim& dim : llvm::reverse(dims)) {
    dim.out_stride = out_stride;
    out_stride *= dim.extent;
  }
  return dims;
}

// Copies dim `q`, the innermost of the output.
template <typename T>
void CopyRow(const T* source, const CopyDim& q, T* out) {
  for (const Interval& part : q.intervals) {
    const T* from = source + part.start * q.stride;
    const auto count = static_cast<size_t>(part.extent);
    if (q.stride == 1) {
      std::memcpy(out, from, count * sizeof(T));
    } else if (q.stride == 0) {
      std::fill_n(out, count, *from);
    } else {
      for (int64_t i = 0; i < part.extent; ++i) out[i] = from[i * q.stride];
    }
    out += part.extent;
  }
}

// Copies dims `p` and `q` in square tiles, where the source is contiguous in
// `p` and the output in `q`: each cache line is then used whole.
template <typename T>
void CopyTransposed(const T* source, const CopyDim& p, const CopyDim& q,
                    llvm::ArrayRef<int64_t> p_offsets,
                    llvm::ArrayRef<int64_t> q_offsets, T* out) {
  for (int64_t i0 = 0; i0 < p.extent; i0 += kTile) {
    const int64_t i1 = std::min(i0 + kTile, p.extent);
    for (int64_t j0 = 0; j0 < q.extent; j0 += kTile) {
      const int64_t j1 = std::min(j0 + kTile, q.extent);
      for (int64_t i = i0; i < i1; ++i) {
        const T* from = source + p_offsets[i];
        T* to = out + i * p.out_stride;
        for (int64_t j = j0; j < j1; ++j) to[j] = from[q_offsets[j]];
      }
    }
  }
}

template <typename T>
void CopyDims(const T* source, std::vector<CopyDim> dims, T* out) {
  if (dims.empty()) {
    *out = *source;
    return;
  }
  const CopyDim q = std::move(dims.back());
  dims.pop_back();
  auto p_at = dims.end();
  if (q.stride > 1)
    p_at = llvm::find_if(dims, [](const CopyDim& d) { return d.stride == 1; });
  const bool transposed = p_at != dims.end();
  CopyDim p;
  std::vector<int64_t> p_offsets, q_offsets;
  if (transposed) {
    p = std::move(*p_at);
    dims.erase(p_at);
    p_offsets = Offsets(p);
    q_offsets = Offsets(q);
  }
  std::vector<std::vector<int64_t>> offsets;
  for (const CopyDim& dim : dims) offsets.push_back(Offsets(dim));
  std::vector<int64_t> index(dims.size(), 0);
  while (true) {
    int64_t from = 0, to = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      from += offsets[d][static_cast<size_t>(index[d])];
      to += index[d] * dims[d].out_stride;
    }
    if (transposed)
      CopyTransposed(source + from, p, q, p_offsets, q_offsets, out + to);
    else
      CopyRow(source + from, q, out + to);
    size_t d = dims.size();
    while (d > 0 && ++index[d - 1] == dims[d - 1].extent) index[--d] = 0;
    if (d == 0) return;
  }
}

template <typename T>
void CopyAll(const uint8_t* data, const WeightInfo& weight,
             llvm::ArrayRef<DimIntervals> block, T* out) {
  int64_t base = 0;
  std::vector<CopyDim> dims =
      Simplify(weight.sizes, weight.strides, block, base);
  CopyDims(reinterpret_cast<const T*>(data) + base, std::move(dims), out);
}

absl::Status CheckBlock(const WeightInfo& weight, const Bytes& storage,
                        llvm::ArrayRef<DimIntervals> block, size_t out_bytes) {
  const auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("weight \"", weight.name, "\": ", what));
  };
  if (block.size() != weight.sizes.size() ||
      weight.strides.size() != weight.sizes.size())
    return error("the block has another number of dims");
  int64_t elements = 1, last = weight.offset;
  bool overflow = weight.offset < 0;
  for (size_t d = 0; d < block.size(); ++d) {
    int64_t extent = 0, end = 0;
    for (const Interval& part : block[d]) {
      if (part.start < 0 || part.extent < 0 ||
          part.extent > weight.sizes[d] - part.start)
        return error(absl::StrCat("the block leaves dim ", d, " of size ",
                                  weight.sizes[d]));
      extent += part.extent;
      if (part.extent > 0) end = std::max(end, part.start + part.extent - 1);
    }
    int64_t reach = 0;
    overflow = overflow || weight.strides[d] < 0 ||
               llvm::MulOverflow(end, weight.strides[d], reach) ||
               llvm::AddOverflow(last, reach, last) ||
               llvm::MulOverflow(elements, extent, elements);
  }
  int64_t bytes = 0, needed = 0;
  const int64_t item = ByteSize(weight.dtype);
  overflow = overflow || llvm::MulOverflow(elements, item, bytes) ||
             llvm::AddOverflow(last, int64_t{1}, last) ||
             llvm::MulOverflow(last, item, needed);
  if (overflow) return error("its sizes overflow");
  if (static_cast<uint64_t>(bytes) != out_bytes)
    return error(absl::StrCat("the block has ", bytes, " bytes, room is for ",
                              out_bytes));
  if (bytes > 0 && static_cast<uint64_t>(needed) > storage.size())
    return error(absl::StrCat("needs ", needed, " bytes of a storage of ",
                              storage.size()));
  return absl::OkStatus();
}

}  // namespace

int64_t WeightInfo::NumElements() const {
  int64_t product = 1;
  for (int64_t size : sizes) product *= size;
  return product;
}

bool WeightInfo::IsContiguous() const {
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] != 1 && strides[d] != expected) return NumElements() == 0;
    expected *= sizes[d];
  }
  return true;
}

const WeightInfo* WeightSource::Find(llvm::StringRef name) const {
  auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &weights_[it->second];
}

absl::StatusOr<const WeightInfo*> WeightSource::Get(
    llvm::StringRef name) const {
  if (const WeightInfo* weight = Find(name)) return weight;
  auto it = unsupported_.find(name);
  if (it != unsupported_.end())
    return absl::UnimplementedError(
        absl::StrCat("weight \"", name.str(), "\" ", it->second));
  return absl::NotFoundError(
      absl::StrCat("no weight is named \"", name.str(), "\""));
}

bool WeightSource::Add(WeightInfo weight) {
  if (!by_name_.try_emplace(weight.name, weights_.size()).second) return false;
  weights_.push_back(std::move(weight));
  return true;
}

void WeightSource::AddUnsupported(std::string name, std::string why) {
  unsupported_[name] = std::move(why);
}

std::vector<DimIntervals> WholeBlock(llvm::ArrayRef<int64_t> sizes) {
  std::vector<DimIntervals> block;
  for (int64_t size : sizes) block.push_back({{0, size}});
  return block;
}

int64_t BlockElements(llvm::ArrayRef<DimIntervals> block) {
  int64_t product = 1;
  for (const DimIntervals& dim : block) {
    int64_t extent = 0;
    for (const Interval& part : dim) extent += part.extent;
    product *= extent;
  }
  return product;
}

absl::Status CopyBlock(const WeightInfo& weight, const Bytes& storage,
                       llvm::ArrayRef<DimIntervals> block, void* out,
                       size_t out_bytes) {
  TP_RETURN_IF_ERROR(CheckBlock(weight, storage, block, out_bytes));
  if (out_bytes == 0) return absl::OkStatus();
  const int64_t item = ByteSize(weight.dtype);
  const uint8_t* data = storage.data() + weight.offset * item;
  const auto address =
      reinterpret_cast<uintptr_t>(data) | reinterpret_cast<uintptr_t>(out);
  if (address % static_cast<uintptr_t>(item) != 0) {
    // A stored zip record may start anywhere. Then the bytes of an element are
    // one more dim.
    WeightInfo bytes = weight;
    std::vector<DimIntervals> byte_block(block.begin(), block.end());
    for (int64_t& stride : bytes.strides) stride *= item;
    bytes.sizes.push_back(item);
    bytes.strides.push_back(1);
    byte_block.push_back({{0, item}});
    CopyAll(data, bytes, byte_block, static_cast<uint8_t*>(out));
    return absl::OkStatus();
  }
  switch (item) {
    case 1:
      CopyAll(data, weight, block, static_cast<uint8_t*>(out));
      break;
    case 2:
      CopyAll(data, weight, block, static_cast<uint16_t*>(out));
      break;
    case 4:
      CopyAll(data, weight, block, static_cast<uint32_t*>(out));
      break;
    default:
      CopyAll(data, weight, block, static_cast<uint64_t*>(out));
      break;
  }
  return absl::OkStatus();
}

}  // namespace tp
