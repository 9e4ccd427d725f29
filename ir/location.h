// Where an op came from in the user's program.
#ifndef TP_IR_LOCATION_H_
#define TP_IR_LOCATION_H_

#include <string>

namespace tp {

// Prints as: loc "mlp.py":12 in "block.0.wi" (the column, when known, as
// "mlp.py":12:7). Empty parts are left out.
struct Location {
  std::string module_path;  // dotted, "" for the root module
  std::string file;
  int line = 0;
  int column = 0;

  bool empty() const { return file.empty() && module_path.empty(); }
  friend bool operator==(const Location&, const Location&) = default;
};

// "mlp.py:12 in block.0.wi", for error messages.
std::string ToString(const Location& location);

}  // namespace tp

#endif  // TP_IR_LOCATION_H_
