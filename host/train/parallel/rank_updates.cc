#include "train/parallel/rank_updates.h"

#include <vector>

namespace lamina::train {

// Waits for the sum of the round before: only here, and not in the driver, can the host notice that
// another rank has failed. By then it has enqueued this round, so the device works on.
void RankUpdates::ended(std::size_t round) {
  communicator_.finish();
  std::vector<TensorRef> gradients;
  for (const int parameter : rounds()[round].parameters)
    gradients.push_back(state().gradients()[static_cast<std::size_t>(parameter)]);
  communicator_.queue().wait(queue().record());
  communicator_.all_reduce(gradients);
  if (round > 0) update(round - 1);
}

void RankUpdates::finish() {
  communicator_.finish();
  if (!rounds().empty()) update(rounds().size() - 1);
}

}  // namespace lamina::train
