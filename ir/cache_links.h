// Which output of a function is the cache that an input takes at the next
// call, of the same function or of another.
#ifndef TP_IR_CACHE_LINKS_H_
#define TP_IR_CACHE_LINKS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ir/module.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace tp {

struct CacheLink {
  std::string from;  // function
  int output = 0;    // its output_<output>
  std::string to;    // function, may be `from`
  std::string input;
  friend bool operator==(const CacheLink&, const CacheLink&) = default;
};

// Reads "prefill.output_1=step.past_0"; where a module has one function, its
// name may be left out ("output_1=past_0"), then `only` stands for it.
// kInvalidArgument says what is wrong.
absl::StatusOr<CacheLink> ParseCacheLink(llvm::StringRef text,
                                         llvm::StringRef only);

// Ties outputs to inputs, so that each lies on the mesh as its input does.
// kInvalidArgument names a function, output or input that is not there, and
// types that do not fit.
absl::Status AddCacheLinks(Module& module, llvm::ArrayRef<CacheLink> links);

}  // namespace tp

#endif  // TP_IR_CACHE_LINKS_H_
