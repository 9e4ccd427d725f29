// What frontend/ and runtime/ include from LibTorch, compiled once. A target
// that reuses this header still names its includes itself.
#ifndef CMAKE_TORCH_PCH_H_
#define CMAKE_TORCH_PCH_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/serialization/import.h>

#endif  // CMAKE_TORCH_PCH_H_
