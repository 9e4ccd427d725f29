#include "ir/collectives.h"

#include <array>

namespace tp {
namespace {

// One row per kind, in the order of the enum. Per rank and axis of n, a whole
// tensor of B bytes costs bytes * B * (n-1)/n, divided by n once more where a
// rank holds a part only and sends parts of that part.
struct CollectiveRow {
  CollectiveKind kind;
  const char* op_name;
  bool communicates;
  int bytes;
  bool parts_of_parts;
  CollectiveKind adjoint;
};

constexpr std::array<CollectiveRow, 8> kRows = {{
    {CollectiveKind::kNone, "", false, 0, false, CollectiveKind::kNone},
    {CollectiveKind::kSlice, "tp.slice", false, 0, false,
     CollectiveKind::kAllGather},
    // The gradient of what was Partial is whole: it goes to every rank as is.
    {CollectiveKind::kAllReduce, "tp.all_reduce", true, 2, false,
     CollectiveKind::kNone},
    {CollectiveKind::kAllGather, "tp.all_gather", true, 1, false,
     CollectiveKind::kSlice},
    {CollectiveKind::kReduceScatter, "tp.reduce_scatter", true, 1, false,
     CollectiveKind::kAllGather},
    {CollectiveKind::kAllToAll, "tp.all_to_all", true, 1, true,
     CollectiveKind::kAllToAll},
    // No transition leads here: deciders are not differentiated.
    {CollectiveKind::kBroadcast, "tp.broadcast", true, 1, false,
     CollectiveKind::kImpossible},
    {CollectiveKind::kImpossible, "", false, 0, false,
     CollectiveKind::kImpossible},
}};

constexpr bool RowsFollowTheEnum() {
  for (size_t i = 0; i < kRows.size(); ++i)
    if (kRows[i].kind != static_cast<CollectiveKind>(i)) return false;
  return true;
}
static_assert(RowsFollowTheEnum());

const CollectiveRow& Row(CollectiveKind kind) {
  return kRows[static_cast<size_t>(kind)];
}

// What leads from one kind of placement to another that lies differently.
constexpr CollectiveKind kTransitions[3][3] = {
    // to Replicate, Shard, Partial
    {CollectiveKind::kNone, CollectiveKind::kSlice,
     CollectiveKind::kImpossible},  // from Replicate
    {CollectiveKind::kAllGather, CollectiveKind::kAllToAll,
     CollectiveKind::kImpossible},  // from Shard
    {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
     CollectiveKind::kImpossible},  // from Partial
};

}  // namespace

std::string OpNameOf(CollectiveKind kind) { return Row(kind).op_name; }

CollectiveKind Transition(const Placement& from, const Placement& to,
                          int64_t axis_size) {
  if (SameLayout(from, to, axis_size)) return CollectiveKind::kNone;
  return kTransitions[static_cast<size_t>(from.kind())]
                     [static_cast<size_t>(to.kind())];
}

bool Communicates(CollectiveKind kind) { return Row(kind).communicates; }

double BytesMoved(CollectiveKind kind, double whole_bytes, int64_t axis_size) {
  const CollectiveRow& row = Row(kind);
  const double n = static_cast<double>(axis_size);
  const double bytes = row.bytes * whole_bytes * (n - 1) / n;
  return row.parts_of_parts ? bytes / n : bytes;
}

CollectiveKind Adjoint(CollectiveKind kind) { return Row(kind).adjoint; }

}  // namespace tp
