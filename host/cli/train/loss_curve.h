// Draws the losses of a run with characters, printed when a run ends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lamina::cli {

struct CurvePoint {
  std::int64_t step = 0;
  double loss = 0;
};

// `rows` lines of plot with the loss on the left, an axis of steps and a legend below; at most
// `columns` wide. Training losses are averaged over the steps of a column and drawn with '.',
// validation losses (may be empty) with 'o'. Points that are not finite are skipped; "" if fewer
// than two remain.
//
//   4.81 |.
//        | .
//   3.36 |  ..o..
//   2.12 |       ....o
//        +-------------
//         1         600   . training loss   o validation loss
std::string loss_curve(const std::vector<CurvePoint>& training,
                       const std::vector<CurvePoint>& validation, int columns = 72, int rows = 12);

}  // namespace lamina::cli
