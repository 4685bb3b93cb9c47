// Work of a queue that is recorded once and run many times. A queue whose device starts recorded
// work faster than single pieces of it derives from Recorder too.
//
//   recorder.begin_recording();
//   ...                                            // enqueues work, which does not run
//   auto recording = recorder.end_recording(nullptr);
//   if (recording) recorder.replay(*recording);    // runs it
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace lamina {

// Work with its operands, ready to run.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
};

class Recorder {
 public:
  virtual ~Recorder() = default;

  // False if the user has turned recording off.
  virtual bool records() const = 0;

  // Makes the queue record later work of this thread instead of running it.
  virtual void begin_recording() = 0;
  virtual bool is_recording() const = 0;
  // Ends it. `old`: a recording that is no longer needed and may be changed into the new one, or
  // null. Returns null if the work cannot be recorded, eg because a kernel waits for the device.
  virtual std::unique_ptr<RecordedWork> end_recording(std::unique_ptr<RecordedWork> old) = 0;
  // Ends it and forgets the work, a part of which failed.
  virtual void drop_recording() = 0;
  // Enqueues the work of a recording of this queue.
  virtual void replay(const RecordedWork& recording) = 0;

  // Counts since the queue was made.
  struct Counts {
    std::int64_t graphs = 0;   // recordings that were made
    std::int64_t updates = 0;  // old ones that were changed
    std::int64_t nodes = 0;    // pieces of work in the largest one
    std::int64_t replays = 0;
  };
  virtual Counts recorded() const = 0;
};

}  // namespace lamina
