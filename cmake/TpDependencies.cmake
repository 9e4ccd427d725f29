# Third-party packages of the Torch-free parts: LLVM Support, Abseil,
# GoogleTest. Everything common hangs on the interface target tp_base.

if(NOT LLVM_DIR)
  # LLVM's version file accepts only its own major version, so a range has to
  # be walked; the newest supported one wins.
  foreach(version 19 18 17 16 15)
    find_package(LLVM ${version} QUIET CONFIG
                 HINTS /usr/lib/llvm-${version}/lib/cmake/llvm)
    if(LLVM_FOUND)
      break()
    endif()
  endforeach()
endif()
if(NOT LLVM_FOUND)
  find_package(LLVM QUIET CONFIG)
endif()
if(NOT LLVM_FOUND OR LLVM_VERSION_MAJOR LESS 15 OR LLVM_VERSION_MAJOR GREATER 19)
  message(FATAL_ERROR
          "No LLVM 15 to 19 with CMake files found (llvm-19-dev, "
          "libzstd-dev, zlib1g-dev, libxml2-dev on Debian and Ubuntu). "
          "tools/setup installs them.")
endif()
message(STATUS "LLVM ${LLVM_PACKAGE_VERSION}: ${LLVM_DIR}")

find_package(absl REQUIRED CONFIG)
find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
find_package(ZLIB REQUIRED)

add_library(tp_base INTERFACE)
target_include_directories(tp_base INTERFACE ${CMAKE_SOURCE_DIR})
target_include_directories(tp_base SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
separate_arguments(tp_llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
target_compile_definitions(tp_base INTERFACE ${tp_llvm_definitions})
target_link_libraries(
  tp_base
  INTERFACE LLVMSupport
            absl::status
            absl::statusor
            absl::strings
            absl::str_format
            absl::synchronization
            absl::time
            absl::flags
            absl::flags_parse
            absl::flags_usage
            Threads::Threads)
