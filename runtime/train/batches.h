// Micro-batches from files.
//
// A safetensors file is one micro-batch, by input name. A file of JSON lines
// holds one example per line,
//
//     {"input_ids": [71, 204, 1], "labels": [8, 1]}
//
// whose lists become rows padded to the longest of the batch, rounded up to a
// multiple: labels with -100, all others with the pad id. Single numbers
// become one per row. A folder stands for its files, sorted by name.
#ifndef TP_RUNTIME_TRAIN_BATCHES_H_
#define TP_RUNTIME_TRAIN_BATCHES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "runtime/tensor_io.h"

namespace tp {

struct BatchOptions {
  std::vector<std::string> paths;
  bool shuffle = true;
  uint64_t seed = 42;
  int epochs = 1;  // 0: without end
  // Of JSON lines:
  int batch_size = 8;
  int pad_to_multiple = 8;
  int64_t pad_id = 0;
  // Names of the model's inputs: "attention_mask" is made where it is one.
  std::vector<std::string> inputs;
};

// One thread at a time.
class Batches {
 public:
  // Reads what there is, not the tensors. kNotFound, or kInvalidArgument for
  // files of both kinds, of neither, or without an example.
  static absl::StatusOr<std::unique_ptr<Batches>> Open(
      const BatchOptions& options);
  ~Batches();

  // The next micro-batch; nothing after the last epoch. An incomplete batch
  // of JSON lines at the end of an epoch is one, too.
  absl::StatusOr<std::optional<NamedTensors>> Next();

  // Micro-batches per epoch.
  int64_t size() const;
  // Where Next goes on: micro-batches of that epoch that are used up.
  int64_t epoch() const { return epoch_; }
  int64_t position() const { return position_; }
  void Seek(int64_t epoch, int64_t position);

 private:
  struct Line {
    size_t file = 0;
    uint64_t begin = 0;  // bytes in the file
    uint64_t size = 0;
    int64_t number = 0;  // from 1
  };

  explicit Batches(BatchOptions options) : options_(std::move(options)) {}
  absl::Status FindFiles();
  absl::Status IndexLines();
  void Shuffle();
  absl::StatusOr<NamedTensors> FromLines(int64_t batch) const;

  const BatchOptions options_;
  std::vector<std::string> files_;
  std::vector<std::string> text_;  // of JSON lines, by file
  std::vector<Line> lines_;        // of JSON lines
  bool is_json_ = false;
  int64_t epoch_ = 0;
  int64_t position_ = 0;
  int64_t shuffled_epoch_ = -1;
  std::vector<int64_t> order_;  // of examples (files or lines)
};

}  // namespace tp

#endif  // TP_RUNTIME_TRAIN_BATCHES_H_
