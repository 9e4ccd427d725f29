# Compiler and linker flags shared by every target.

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()

# -g1 keeps function names and lines for backtraces at a fraction of the link
# time and disk of -g. NDEBUG in both optimized builds: LibTorch's headers
# change what they inline with it, and the wheel is built with it.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -DNDEBUG")

add_compile_options(-Wall -Wextra)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC warns falsely about std::variant (maybe-uninitialized) and std::string
  # (restrict) once it has inlined them.
  add_compile_options(-Wno-maybe-uninitialized -Wno-restrict)
endif()
if(TP_WERROR)
  add_compile_options(-Werror)
endif()

if(TP_SANITIZE)
  if(NOT TP_TORCH_FREE)
    message(FATAL_ERROR
            "TP_SANITIZE needs TP_TORCH_FREE=ON: LibTorch is not built with "
            "sanitizers and reports false errors under them. Use the asan or "
            "tsan preset.")
  endif()
  # LLVM is built without RTTI, which UBSan's vptr check would need.
  set(tp_sanitize_flags -fsanitize=${TP_SANITIZE} -fno-omit-frame-pointer)
  if(TP_SANITIZE MATCHES "undefined")
    list(APPEND tp_sanitize_flags -fno-sanitize=vptr -fno-sanitize-recover=all)
  endif()
  add_compile_options(${tp_sanitize_flags})
  add_link_options(${tp_sanitize_flags})
endif()

# A fast linker matters: each binary that links LibTorch costs seconds with
# GNU ld and tenths of a second with mold or lld.
find_program(TP_MOLD mold)
find_program(TP_LLD NAMES ld.lld)
if(TP_MOLD)
  add_link_options(-fuse-ld=mold)
elseif(TP_LLD)
  add_link_options(-fuse-ld=lld)
endif()

if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(TP_CCACHE ccache)
  if(TP_CCACHE)
    # Without this sloppiness ccache never hits when a precompiled header is
    # in use.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
        ${TP_CCACHE})
  endif()
endif()
