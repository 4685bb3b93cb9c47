// Algorithms of cuBLASLt that were chosen earlier, on the disk: a choice takes a tenth of a
// millisecond and more, and a model has a hundred of them.
//
// A file belongs to one card, driver and version of the library. Records are added at its end, each
// with a checksum, so that processes may add at the same time.
#pragma once

#include <map>
#include <string>

#include "backends/cuda/blas/choice.h"

namespace lamina::cuda::blas {

// Facts that all choices of a file depend on.
struct ChoiceOrigin {
  std::string card;         // "NVIDIA H200 sm_90"
  int driver = 0;           // version
  std::size_t library = 0;  // version

  std::string text() const;  // one line
  std::string file_name() const;
};

class ChoiceFile {
 public:
  // The file of the origin in `folder`, which is created with the first choice. No file is an
  // error: one that cannot be read or written is a warning, and one with damaged records is written
  // again without them.
  ChoiceFile(const std::string& folder, const ChoiceOrigin& origin);

  const std::map<ProblemKey, AlgorithmChoice>& choices() const { return choices_; }
  void add(const ProblemKey& problem, const AlgorithmChoice& choice);

 private:
  void read();
  void give_up(const std::string& why);

  std::string folder_, path_, head_;
  std::map<ProblemKey, AlgorithmChoice> choices_;
  bool usable_ = true;
};

// The folder for such files of this user: $XDG_CACHE_HOME/lamina or ~/.cache/lamina; empty if
// neither variable is set, or the program has more rights than its user.
std::string cache_folder();

}  // namespace lamina::cuda::blas
