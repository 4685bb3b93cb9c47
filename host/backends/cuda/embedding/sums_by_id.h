// Sums of rows by id, on the device: the gradient of a table, whole or as a list of rows.
//
// The ids are sorted and the different ones listed, then a warp or a block adds up the rows of each
// id. The order of a sum depends on the number of its rows alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "backends/cuda/access.h"
#include "backends/cuda/embedding/params.h"
#include "backends/cuda/embedding/sort.h"
#include "core/dtype.h"

namespace lamina::cuda {

class SumsById {
 public:
  struct Sizes {
    std::int64_t num_ids;
    std::int64_t num_rows;  // of the table; other ids are ignored
    std::int64_t width;
    DType dtype;  // of dy
  };
  // REQUIRES: num_ids <= StableSort::kMaxCount and num_rows < 2^31.
  SumsById(Context& context, const Sizes& sizes);

  std::size_t workspace_bytes() const;
  // Adds the sums of each id to its row of `table`, in sum_dtype(dtype).
  void add_to_table(const KernelArgs& args, const void* ids, const void* dy, void* table) const;
  // Writes the ids that occur, in order, and their sums. Unused slots get the id num_rows and
  // zeros.
  void list(const KernelArgs& args, const void* ids, const void* dy, std::int64_t slots,
            void* sum_ids, void* sums) const;

 private:
  // Parts of the workspace.
  struct Lists {
    gpu::Address keys, places, starts, ids, used, tile_counts;
    std::byte* sort;
  };
  Lists lists(std::byte* workspace) const;
  // Sorts and lists the ids; `listed` is memory for those that occur.
  void find_ids(const KernelArgs& args, const Lists& lists, const void* ids,
                gpu::Address listed) const;
  void add_up(const KernelArgs& args, const SumRowsParams& params) const;

  Sizes sizes_;
  StableSort sort_;
  std::int64_t tiles_;
  Function count_keys_, list_keys_;
  ColumnForms short_groups_, long_groups_;
  Function clear_;
};

}  // namespace lamina::cuda
