// Records of preference data as two documents each: the chosen answer, and the rejected one.
#pragma once

#include <string>
#include <vector>

#include "chat/answer_mask.h"
#include "core/json.h"
#include "data/reading.h"

namespace lamina::data {

// One record in a form of TRL's; `place` is "FILE:LINE", for errors:
//   {"prompt": "..", "chosen": "..", "rejected": ".."}      texts, which no template sees
//   {"prompt": [messages], "chosen": [messages], "rejected": [messages]}
//   {"chosen": .., "rejected": ..}    of either kind: the prompt is what both begin with
// In the loss is what follows the prompt. Two documents, the chosen one first, each with something
// in the loss; none where both answers are the same tokens. Errors (class data or usage): none of
// these; what the template refuses.
std::vector<chat::MaskedTokens> read_preference_record(const JsonValue& record,
                                                       const std::string& place,
                                                       const Reading& reading);

}  // namespace lamina::data
