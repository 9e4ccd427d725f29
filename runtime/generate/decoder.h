// Calls the entries of a package one after the other, caches staying on the
// ranks in between: what an entry leaves for an input of the next call, or of
// another entry, is never brought together.
#ifndef TP_RUNTIME_GENERATE_DECODER_H_
#define TP_RUNTIME_GENERATE_DECODER_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/session.h"

namespace tp {

class Decoder {
 public:
  // The session, with all entries, must outlive the decoder.
  explicit Decoder(Session& session)
      : session_(session), caches_(session.num_ranks()) {}

  // Runs an entry (its index in session.entries()). Inputs that are not given
  // are caches of earlier calls. Returns the outputs that are no caches, whole,
  // of the output rank. After an error other than one of the inputs there are
  // no caches.
  absl::StatusOr<std::vector<at::Tensor>> Call(int entry,
                                               const NamedTensors& inputs);

  // Reorders the rows of every cache: row i becomes the old row rows[i]; there
  // may be more or fewer. `rows` is i64 [new batch]. kUnimplemented if a cache
  // has no dim that is the batch's.
  absl::Status SelectRows(const at::Tensor& rows);

  // Bytes of the caches on a rank.
  int64_t CacheBytes(int rank) const;
  void Forget();

 private:
  using Key = std::pair<int, std::string>;  // entry and input
  using Caches = std::map<Key, at::Tensor>;

  std::vector<KeptSizes> SizesOfCaches(const Program& program, int entry) const;
  absl::Status RunRank(int rank, int entry, const BoundInputs& bound,
                       std::vector<at::Tensor>& outputs);

  Session& session_;
  std::vector<Caches> caches_;  // by rank
  uint64_t calls_ = 0;
};

// The dim of an entry's input that is the first dim of its token ids; -1 if it
// has none, or cannot be told from others.
int BatchDim(const Program& program, const std::string& input);

// The input of an entry that takes token ids: decoder_input_ids or input_ids;
// "" if there is neither.
std::string TokenInput(const Program& program);
// Null if there is no such input.
const ProgramArgument* FindInput(const Program& program,
                                 const std::string& name);

}  // namespace tp

#endif  // TP_RUNTIME_GENERATE_DECODER_H_
