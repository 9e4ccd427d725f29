# Functions that make the project's libraries, tools and tests from folders.
# A library or tool whose sources do not exist yet is left out without an
# error, so the tree configures at any moment.

# Every binary may print the version of the project.
set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY COMPILE_DEFINITIONS
             TP_VERSION="${PROJECT_VERSION}")

# Lets `target` include LibTorch, through the shared precompiled header.
function(tp_use_torch target)
  target_link_libraries(${target} PUBLIC tp_torch)
  # Dropping the header's own target from the build order would compile it
  # once per target.
  target_precompile_headers(${target} REUSE_FROM tp_torch_pch)
endfunction()

# tp_add_library(NAME [TORCH] SOURCES glob... [EXCLUDE file...]
#                DEPENDS target...)
function(tp_add_library name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;EXCLUDE;DEPENDS" ${ARGN})
  list(TRANSFORM ARG_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/)
  list(TRANSFORM ARG_EXCLUDE PREPEND ${CMAKE_SOURCE_DIR}/)
  file(GLOB sources CONFIGURE_DEPENDS ${ARG_SOURCES})
  list(REMOVE_ITEM sources "" ${ARG_EXCLUDE})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC ${ARG_DEPENDS})
    if(ARG_TORCH)
      tp_use_torch(${name})
    endif()
  else()
    message(STATUS "${name}: no sources yet, skipped")
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${ARG_DEPENDS})
  endif()
endfunction()

# tp_add_tool(NAME [TORCH] SOURCE file DEPENDS target...)
function(tp_add_tool name)
  cmake_parse_arguments(ARG "TORCH" "SOURCE" "DEPENDS" ${ARGN})
  # A glob rather than EXISTS: the build reruns CMake when the file appears.
  file(GLOB source CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${ARG_SOURCE})
  if(NOT source)
    message(STATUS "${name}: no source yet, skipped")
    return()
  endif()
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS})
  if(ARG_TORCH)
    target_link_libraries(${name} PRIVATE tp_torch)
    target_precompile_headers(${name} REUSE_FROM tp_torch_pch)
  endif()
endfunction()
