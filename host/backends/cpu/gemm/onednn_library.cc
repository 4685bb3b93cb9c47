#include "backends/cpu/gemm/onednn.h"

#include <dlfcn.h>

#include <dnnl_version.h>
#include <fmt/format.h>

#include <new>

#include "core/cpu_mask.h"

// The functions that dnnl.hpp calls for onednn.cc. The linker reports a missing one.
#define LAMINA_ONEDNN_COMMON(X)              \
  X(dnnl_engine_create)                      \
  X(dnnl_engine_destroy)                     \
  X(dnnl_memory_create)                      \
  X(dnnl_memory_desc_get_size)               \
  X(dnnl_memory_destroy)                     \
  X(dnnl_post_ops_append_sum)                \
  X(dnnl_post_ops_create)                    \
  X(dnnl_post_ops_destroy)                   \
  X(dnnl_primitive_attr_create)              \
  X(dnnl_primitive_attr_destroy)             \
  X(dnnl_primitive_attr_set_post_ops)        \
  X(dnnl_primitive_attr_set_scratchpad_mode) \
  X(dnnl_primitive_create)                   \
  X(dnnl_primitive_desc_destroy)             \
  X(dnnl_primitive_desc_query)               \
  X(dnnl_primitive_desc_query_md)            \
  X(dnnl_primitive_destroy)                  \
  X(dnnl_primitive_execute)                  \
  X(dnnl_stream_create)                      \
  X(dnnl_stream_destroy)                     \
  X(dnnl_version)
#if DNNL_VERSION_MAJOR >= 3
#define LAMINA_ONEDNN_OWN(X)              \
  X(dnnl_matmul_primitive_desc_create)    \
  X(dnnl_memory_desc_clone)               \
  X(dnnl_memory_desc_create_with_strides) \
  X(dnnl_memory_desc_create_with_tag)     \
  X(dnnl_memory_desc_destroy)             \
  X(dnnl_memory_set_data_handle)
#else
#define LAMINA_ONEDNN_OWN(X)              \
  X(dnnl_matmul_desc_init)                \
  X(dnnl_memory_desc_init_by_strides)     \
  X(dnnl_memory_desc_init_by_tag)         \
  X(dnnl_memory_set_data_handle_v2)       \
  X(dnnl_post_ops_append_sum_v2)          \
  X(dnnl_primitive_desc_iterator_create)  \
  X(dnnl_primitive_desc_iterator_destroy) \
  X(dnnl_primitive_desc_iterator_fetch)
#endif

// Defines each function as a jump to its address in the library.
#define LAMINA_ONEDNN_JUMP(name)                                                          \
  extern "C" {                                                                            \
  __attribute__((used, visibility("hidden"))) void* lamina_##name = nullptr;              \
  }                                                                                       \
  asm(".pushsection .text\n.hidden " #name "\n.globl " #name "\n.type " #name             \
      ", @function\n" #name ":\n  jmp *lamina_" #name "(%rip)\n.size " #name ", .-" #name \
      "\n.popsection\n");
LAMINA_ONEDNN_COMMON(LAMINA_ONEDNN_JUMP)
LAMINA_ONEDNN_OWN(LAMINA_ONEDNN_JUMP)

namespace lamina::cpu {
namespace {

#define LAMINA_TEXT_OF(number) #number
#define LAMINA_TEXT(number) LAMINA_TEXT_OF(number)
constexpr const char* kFile = "libdnnl.so." LAMINA_TEXT(DNNL_VERSION_MAJOR);

int (*threads)() = nullptr;
void (*set_threads)(int) = nullptr;

// With OMP_PROC_BIND, OpenMP binds the thread that loads it to one CPU, and threads started later
// inherit it. CPUs of threads are decided by threads/threads.h instead.
void* load() {
  CpuMask cpus;
  const bool known = cpus.read();
  void* const library = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (known) cpus.apply();
  return library;
}

std::string open() {
  void* const library = load();
  if (!library) {
    const char* message = ::dlerror();
    const std::string why = message ? message : "";
    // The loader's messages for ENOMEM, in its own allocations or when a segment does not fit.
    if (why.find("annot allocate memory") != why.npos || why.find("failed to map") != why.npos)
      throw std::bad_alloc();
    return fmt::format("oneDNN cannot be opened: {}", why);
  }
  std::string missing;
  const auto find = [&](const char* name) {
    void* const found = ::dlsym(library, name);
    if (!found) missing = name;
    return found;
  };
#define LAMINA_ONEDNN_FIND(name) lamina_##name = find(#name);
  LAMINA_ONEDNN_COMMON(LAMINA_ONEDNN_FIND)
  LAMINA_ONEDNN_OWN(LAMINA_ONEDNN_FIND)
  if (!missing.empty()) return fmt::format("{} lacks the function {}", kFile, missing);
  // dlsym() also searches the dependencies of the library.
  threads = reinterpret_cast<int (*)()>(::dlsym(library, "omp_get_max_threads"));
  set_threads = reinterpret_cast<void (*)(int)>(::dlsym(library, "omp_set_num_threads"));
  return "";
}

}  // namespace

const std::string& open_onednn() {
  static const std::string problem = open();
  return problem;
}

int onednn_threads() { return threads ? threads() : 1; }
void set_onednn_threads(int count) {
  if (set_threads) set_threads(count);
}

}  // namespace lamina::cpu
