#pragma once
// How one end of a link delivers each message exactly once over rails that may fail: numbering,
// acknowledgement, resending on another rail, dropping of duplicates, giving up rails and opening
// them again. Runs on the delegate's thread alone and never waits; turn() does what is due.
//
// Rules:
// - A message is done when it is acknowledged and no request names its slot any more. A rail that
//   fails is destroyed first (rail.hpp), which ends its requests; then its messages go again.
// - An acknowledgement takes the rail on which the data came: if that rail fails, the data comes
//   again and is acknowledged again, so none is lost for good.
// - A message takes a receive slot only while enough stay free for the earlier ones that are still
//   missing. So the window never fills with messages that wait for a missing one.
// - A rail has failed when UCX says so, when a request on it fails, or when nothing (not even the
//   peer's pings) came over it for the rail's deadline; for the last rail the link's deadline
//   counts.
// - The end that sends forward leads the reopening of a rail: it opens, offers its address over
//   another rail, and tries again without a limit on attempts (a growing pause, at most 5 s).

#include "faults/schedule.hpp"
#include "transport/channel.hpp"
#include "transport/ucx/rail.hpp"

#include <array>
#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <set>

namespace adaptra::transport::ucx {

enum class Checksum { off, on };
enum class Wait { event, spin };

struct LinkSettings {
  LinkId link;
  Direction sends = Direction::forward;
  int peer = 0;  ///< rank, for messages
  std::size_t message_bytes = 0;
  int send_slots = 2;
  int receive_slots = 2;
  double deadline_s = 60;
  double rail_deadline_s = 2;
  std::vector<Path> paths;  ///< rail by rail
  Wait wait = Wait::event;
  Checksum checksum = Checksum::off;

  /// "link 1 to stage 2 (rank 2 of the pipeline)".
  std::string describe() const;
  faults::Way way() const;
};

/// What happened on the wire, counted since the start. Written by the delegate, read by anyone.
struct Counters {
  std::atomic<std::uint64_t> sent{0};
  std::atomic<std::uint64_t> resent{0};
  std::atomic<std::uint64_t> acknowledged{0};
  std::atomic<std::uint64_t> received{0};
  std::atomic<std::uint64_t> duplicates{0};  ///< dropped
  std::atomic<std::uint64_t> damaged{0};     ///< checksum differs: sent again
  std::atomic<std::uint64_t> rail_failures{0};
  std::atomic<std::uint64_t> rail_recoveries{0};
};

/// The delegate's word to the stage's thread.
struct Notice {
  enum class Kind { arrived, left, done };
  Kind kind = Kind::arrived;
  int slot = 0;
  int microbatch = 0;
  std::int64_t step = 0;
  std::uint32_t round = 0;
  int rail = 0;
  int attempt = 0;
  std::int64_t posted_ns = 0;  ///< left, done
  std::int64_t at_ns = 0;      ///< arrived or left at
};

class Protocol {
 public:
  using Notify = std::function<void(const Notice&)>;
  using Report = std::function<void(const std::string&)>;

  /// Opens all rails. `pool`: send slots, then receive slots. Throws Error{environment}.
  Protocol(const LinkSettings& settings, std::span<std::byte> pool, Counters& counters,
           Notify notify, Report report);

  std::vector<std::string> addresses() const;
  /// Throws Error{environment}.
  void connect(const std::vector<std::string>& peer);

  void begin_step(const faults::LinkCondition& condition);
  void send(std::int64_t step, std::uint32_t round, int microbatch, int slot,
            std::int64_t handed_ns);
  void release(int slot);
  void say_bye();
  /// True once the peer has all our messages and knows that we leave, or leaves itself.
  bool may_leave() const { return peer_left_ || (bye_answered_ && out_.empty()); }

  /// One turn: takes what came, posts what is due, looks at the deadlines. True where something was
  /// done. Error{peer_lost} once no rail is left.
  Result<bool> turn();
  /// When the next turn is due even if nothing comes.
  std::int64_t next_due_ns() const;
  /// Prepares for sleeping on event_fds(). False where there is work.
  bool arm();
  std::vector<int> event_fds() const;

 private:
  struct OutMessage {
    std::int64_t step = 0;
    std::uint32_t round = 0;
    int microbatch = 0;
    int slot = 0;
    std::uint64_t checksum = 0;
    std::int64_t due_ns = 0;
    std::int64_t posted_ns = 0;
    int rail = -1;  ///< -1: to be posted
    std::uint16_t attempt = 0;
    int requests = 0;  ///< that name the slot
    bool left = false;
    bool acknowledged = false;
  };
  struct Reception {
    int rail = 0;
    int slot = 0;
    Header header;
  };
  struct Deferred {
    int rail = 0;
    RailEvent event;
  };
  enum class RailState { down, opening, up };
  struct RailEnd {
    std::unique_ptr<Rail> rail;
    RailState state = RailState::down;
    std::uint32_t epoch = 0;
    std::multiset<std::uint64_t> sending;  ///< sequences with a request on this rail
    std::int64_t heard_ns = 0;
    std::int64_t next_ping_ns = 0;
    std::int64_t probe_at_ns = 0;  ///< leader: when to open it again, or to give up the opening
    std::int64_t probe_pause_ns = 0;
    bool blocked = false;  ///< a fault holds it down
  };

  bool leads() const { return settings_.sends == Direction::forward; }
  std::span<std::byte> send_memory(int slot) const;
  std::span<std::byte> receive_memory(int slot) const;
  int up_rail() const;
  int best_rail() const;
  int rails_up() const;

  void handle(int r, RailEvent& event);
  void handle_arrival(int r, RailEvent& event);
  void handle_data(int r, RailEvent& event);
  void handle_rail_message(const RailEvent& event);
  void answer_offer(int r, const RailEvent& event);
  bool admit(std::uint64_t sequence) const;
  bool start_reception(int r, RailEvent& event);
  void finish_reception(std::uint64_t sequence);
  void retry_deferred();
  void acknowledge(std::uint64_t sequence);
  void message_left(std::uint64_t sequence);
  void retire(std::uint64_t sequence);
  bool post_due(std::int64_t now);
  void apply_fault();
  void tell(int r, MessageKind kind, std::uint64_t sequence = 0, std::string payload = {},
            int about = -1);
  void fail_rail(int r, const std::string& why);
  void close_rail(int r);
  void rail_is_up(int r);
  void look_at_rails(std::int64_t now);
  void probe(int r, std::int64_t now);

  LinkSettings settings_;
  std::span<std::byte> pool_;
  std::size_t stride_;
  Counters& counters_;
  Notify notify_;
  Report report_;
  std::vector<RailEnd> rails_;
  std::vector<RailEvent> events_;
  std::int64_t rail_deadline_ns_;

  std::map<std::uint64_t, OutMessage> out_;
  std::uint64_t next_sequence_ = 0;
  std::int64_t occupied_until_ns_ = 0;
  faults::LinkCondition condition_;
  int sent_in_step_ = 0;

  std::uint64_t first_missing_ = 0;    ///< all below have been delivered
  std::set<std::uint64_t> delivered_;  ///< above first_missing_
  std::map<std::uint64_t, Reception> receiving_;
  std::vector<int> free_slots_;
  std::list<Deferred> deferred_;

  bool peer_left_ = false;
  bool bye_answered_ = false;
  std::string lost_;  ///< why the link is lost
};

/// Bytes from one slot to the next in the pool.
std::size_t slot_stride(std::size_t message_bytes);

}  // namespace adaptra::transport::ucx
