// Reads records of preference data as two documents each: the chosen and the rejected answer.
#pragma once

#include <string>
#include <vector>

#include "chat/answer_mask.h"
#include "core/json.h"
#include "data/reading.h"

namespace lamina::data {

// Advice about an object with "chosen" and "rejected" that another form reads; nothing for others.
std::vector<std::string> preference_advice(const JsonValue& record, const Reading& reading);

// Reads one record in a form of TRL; `place` is "FILE:LINE", for errors:
//   {"prompt": "..", "chosen": "..", "rejected": ".."}      texts, without a template
//   {"prompt": [messages], "chosen": [messages], "rejected": [messages]}
//   {"chosen": .., "rejected": ..}    of either kind: the prompt is their common beginning
// A "prompt" that is a text is ignored if the answers are messages with a common beginning.
// The text after the prompt is in the loss. Returns two documents, the chosen one first, each with
// a token in the loss; none if both answers have the same tokens. Errors (class data or usage): the
// record has none of these forms; the template rejects it.
std::vector<chat::MaskedTokens> read_preference_record(const JsonValue& record,
                                                       const std::string& place,
                                                       const Reading& reading);

}  // namespace lamina::data
