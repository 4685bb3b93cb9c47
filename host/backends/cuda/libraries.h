// The vendor libraries that a GPU uses, each opened when the first kernel needs it.
#pragma once

#include "backends/cuda/blas/open.h"
#include "backends/cuda/dnn/open.h"

namespace lamina::cuda {

struct Libraries {
  blas::OpenApi blas = blas::system_api;
  dnn::OpenDnn dnn = dnn::system_api;
};

}  // namespace lamina::cuda
