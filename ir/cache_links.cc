#include "ir/cache_links.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ir/status.h"

namespace tp {
namespace {

std::string LinkText(const CacheLink& link) {
  return absl::StrCat(link.from, ".output_", link.output, "=", link.to, ".",
                      link.input);
}

// Which of the function's results is its output `output`.
std::optional<size_t> ResultOf(const Function& function, int output) {
  for (size_t i = 0; i < function.body().results().size(); ++i)
    if (function.result_info(i).is_output && output-- == 0) return i;
  return std::nullopt;
}

std::string InputsOf(const Function& function) {
  std::string text;
  for (const ArgumentInfo& info : function.arguments())
    if (!info.is_weight())
      absl::StrAppend(&text, text.empty() ? "" : ", ", info.name);
  return text;
}

absl::Status AddLink(Module& module, const CacheLink& link) {
  const auto bad = [&](const std::string& why) {
    return absl::InvalidArgumentError(
        absl::StrCat("cache ", LinkText(link), ": ", why));
  };
  Function* from = module.function(link.from);
  Function* to = module.function(link.to);
  if (from == nullptr || to == nullptr)
    return bad(absl::StrCat("there is no entry '",
                            from == nullptr ? link.from : link.to, "'"));
  const std::optional<size_t> result = ResultOf(*from, link.output);
  if (!result)
    return bad(absl::StrCat("'", link.from, "' has no output_", link.output));
  const int argument = to->FindInput(link.input);
  if (argument < 0)
    return bad(absl::StrCat("'", link.to, "' has no input '", link.input,
                            "'; its inputs are ", InputsOf(*to)));
  const TensorType& given = from->body().results()[*result]->type();
  const TensorType& taken = to->body().arguments()[argument]->type();
  if (given.dtype != taken.dtype || given.ndim() != taken.ndim())
    return bad(absl::StrCat("the output is ", ToString(given), ", the input ",
                            ToString(taken)));
  ResultInfo info = from->result_info(*result);
  if (info.argument >= 0 || info.feeds())
    return bad("the output is a cache already");
  if (from == to) {
    for (size_t i = 0; i < from->body().results().size(); ++i)
      if (from->result_info(i).argument == argument)
        return bad("another output, or a write in place, becomes this input");
    info.argument = argument;
  } else {
    info.feeds_function = link.to;
    info.feeds_input = link.input;
    to->arguments()[argument].fed = true;
  }
  from->SetResultInfo(*result, std::move(info));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CacheLink> ParseCacheLink(llvm::StringRef text,
                                         llvm::StringRef only) {
  CacheLink link;
  auto [left, right] = text.split('=');
  const auto entry_of = [&](llvm::StringRef& side) -> std::string {
    auto [entry, rest] = side.split('.');
    if (rest.empty()) return only.str();
    side = rest;
    return entry.str();
  };
  link.from = entry_of(left);
  link.to = entry_of(right);
  link.input = right.str();
  if (link.from.empty() || link.to.empty() || link.input.empty() ||
      !left.consume_front("output_") || left.getAsInteger(10, link.output) ||
      link.output < 0)
    return absl::InvalidArgumentError(absl::StrCat(
        "cache '", text.str(), "': write ",
        only.empty() ? "ENTRY.output_N=ENTRY.INPUT" : "output_N=INPUT"));
  return link;
}

absl::Status AddCacheLinks(Module& module, llvm::ArrayRef<CacheLink> links) {
  for (const CacheLink& link : links) TP_RETURN_IF_ERROR(AddLink(module, link));
  return absl::OkStatus();
}

}  // namespace tp
