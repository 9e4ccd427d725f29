# LibTorch as it lies in the `torch` wheel of one Python, as imported targets.
#
# find_package(Torch) is not used: it looks for a CUDA toolkit and fails on
# every machine that lacks one, although nothing here needs CUDA to build.

set(TP_TORCH_PYTHON "" CACHE STRING
    "Python whose torch package is used; empty: python3 of the PATH")
set(tp_torch_python "${TP_TORCH_PYTHON}")
if(NOT tp_torch_python)
  set(tp_torch_python python3)
endif()

# Reading version.py instead of importing torch saves seconds per configure
# and works where importing fails for want of a driver.
execute_process(
  COMMAND
    ${tp_torch_python} -c
    "import importlib.util as u, re, sys
s = u.find_spec('torch')
if s is None: sys.exit('no module named torch')
p = s.submodule_search_locations[0]
v = re.search(r'__version__ = .([0-9.]+)', open(p + '/version.py').read())
print(p + ';' + v.group(1) + ';' + sys.executable)"
  OUTPUT_VARIABLE tp_torch_found
  ERROR_VARIABLE tp_torch_error
  RESULT_VARIABLE tp_torch_result
  OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT tp_torch_result EQUAL 0)
  message(FATAL_ERROR
          "${tp_torch_python} has no torch: ${tp_torch_error}\n"
          "Set TP_TORCH_PYTHON to a Python that has torch >= 2.11, or run "
          "tools/build, which sets one up.")
endif()
list(GET tp_torch_found 0 TP_TORCH_DIR)
list(GET tp_torch_found 1 TP_TORCH_VERSION)
list(GET tp_torch_found 2 TP_PYTHON)
if(TP_TORCH_VERSION VERSION_LESS 2.11)
  message(FATAL_ERROR
          "torch ${TP_TORCH_VERSION} in ${TP_TORCH_DIR} is too old; "
          "2.11 or later is needed.")
endif()
message(STATUS "LibTorch ${TP_TORCH_VERSION}: ${TP_TORCH_DIR}")

foreach(library c10 torch_cpu)
  set(tp_library ${TP_TORCH_DIR}/lib/lib${library}.so)
  if(NOT EXISTS ${tp_library})
    message(FATAL_ERROR "${tp_library} does not exist; is this torch package "
                        "complete?")
  endif()
  add_library(tp_${library} SHARED IMPORTED)
  set_target_properties(tp_${library} PROPERTIES IMPORTED_LOCATION
                                                 ${tp_library})
endforeach()

add_library(tp_torch INTERFACE)
target_include_directories(
  tp_torch SYSTEM INTERFACE ${TP_TORCH_DIR}/include
                            ${TP_TORCH_DIR}/include/torch/csrc/api/include)
target_compile_definitions(tp_torch
                           INTERFACE TP_TORCH_VERSION="${TP_TORCH_VERSION}")
# The wheel's libraries find CUDA's through their own rpath when they are
# loaded; the linker must not look for them.
target_link_options(tp_torch INTERFACE -Wl,--allow-shlib-undefined)
target_link_libraries(tp_torch INTERFACE tp_torch_cpu tp_c10)

# One precompiled header for every target that includes LibTorch.
file(WRITE ${CMAKE_BINARY_DIR}/tp_torch_pch.cc.tmp
     "// Compiled only to own the precompiled header.\n")
configure_file(${CMAKE_BINARY_DIR}/tp_torch_pch.cc.tmp
               ${CMAKE_BINARY_DIR}/tp_torch_pch.cc COPYONLY)
add_library(tp_torch_pch OBJECT ${CMAKE_BINARY_DIR}/tp_torch_pch.cc)
target_link_libraries(tp_torch_pch PRIVATE tp_base tp_torch)
target_precompile_headers(
  tp_torch_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/torch_pch.h)
