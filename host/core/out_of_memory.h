// The error of an allocation that a device refuses.
#pragma once

#include "core/error.h"

namespace lamina {

// The device that allocates does not know why it is asked, so commands add what to change.
class OutOfMemory : public DeviceError {
 public:
  explicit OutOfMemory(ErrorText text) : DeviceError(ExitCode::memory, std::move(text)) {}
};

}  // namespace lamina
