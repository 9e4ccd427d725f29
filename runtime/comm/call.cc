#include "runtime/comm/call.h"

#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace tp {
namespace {

std::string_view KindName(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return "all_reduce";
    case CollectiveKind::kAllGather:
      return "all_gather";
    case CollectiveKind::kReduceScatter:
      return "reduce_scatter";
    case CollectiveKind::kAllToAll:
      return "all_to_all";
    case CollectiveKind::kBroadcast:
      return "broadcast";
    case CollectiveKind::kBarrier:
      return "barrier";
  }
  return "?";
}

// Abseil of 2022 takes no std::string_view where it has its own type.
std::string Text(std::string_view view) { return std::string(view); }

std::string ShapeText(const Call& call) {
  const int64_t* n = call.sizes;
  const std::string dtype = Text(Name(call.dtype));
  switch (call.kind) {
    case CollectiveKind::kAllReduce:
      return absl::StrCat(" ", Text(Name(call.op)), " ", dtype, "[", n[0], "]");
    case CollectiveKind::kReduceScatter:
      return absl::StrCat(" ", Text(Name(call.op)), " ", dtype, "[", n[0],
                          ", (", n[1], "), ", n[2], "]");
    case CollectiveKind::kAllGather:
      return absl::StrCat(" ", dtype, "[", n[0], ", (", n[1], "), ", n[2], "]");
    case CollectiveKind::kAllToAll: {
      const bool forward = call.direction == AllToAllDirection::kFirstToSecond;
      return absl::StrCat(" ", dtype, "[", n[0], ", (", n[1],
                          forward ? " from), " : " to), ", n[2], ", (", n[3],
                          forward ? " to), " : " from), ", n[4], "]");
    }
    case CollectiveKind::kBroadcast:
      return absl::StrCat(" of ", n[0], " bytes from rank ", call.root);
    case CollectiveKind::kBarrier:
      return "";
  }
  return "";
}

std::string ExtentsText(const Call& call) {
  return call.extents == 0
             ? ""
             : absl::StrCat(" with extents #", absl::Hex(call.extents));
}

}  // namespace

std::string CallToString(const Call& call) {
  return absl::StrCat(Text(KindName(call.kind)), ShapeText(call),
                      ExtentsText(call));
}

std::string CallToString(const Call& call, const CallSite& site) {
  std::string name = Text(site.op.empty() ? KindName(call.kind) : site.op);
  std::string where = absl::StrCat(" (collective ", site.index);
  if (!site.module.empty()) absl::StrAppend(&where, ", in ", Text(site.module));
  if (!site.source.empty()) absl::StrAppend(&where, ", at ", Text(site.source));
  return absl::StrCat(name, ShapeText(call), ExtentsText(call), where, ")");
}

}  // namespace tp
