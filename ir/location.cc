#include "ir/location.h"

namespace tp {

std::string ToString(const Location& location) {
  std::string text = location.file;
  if (!text.empty() && location.line > 0)
    text += ":" + std::to_string(location.line);
  if (!location.module_path.empty()) {
    if (!text.empty()) text += " ";
    text += "in " + location.module_path;
  }
  return text;
}

}  // namespace tp
