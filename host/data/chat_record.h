// Records of chat data as tokens with a mask.
#pragma once

#include <string>
#include <vector>

#include "chat/answer_mask.h"
#include "core/json.h"
#include "data/reading.h"

namespace lamina::data {

// One record in any of the forms that are in use; `place` is "FILE:LINE", for errors:
//   {"messages": [{"role": "user", "content": ".."}, ..], "tools": ..}
//   {"conversations": [{"from": "human", "value": ".."}, ..], "system": ".."}     ShareGPT
//   {"instruction": "..", "input": "..", "output": "..", "system": ".."}          Alpaca
//   {"prompt": "..", "completion": ".."}               texts, which no template sees
//   {"prompt": [messages], "completion": [messages]}
// "tools" (a list, or JSON in a text), "documents" and the members of "chat_template_kwargs" are
// for the template. Errors (class data or usage): none of these; what the template refuses.
std::vector<chat::MaskedTokens> read_chat_record(const JsonValue& record, const std::string& place,
                                                 const Reading& reading);

}  // namespace lamina::data
