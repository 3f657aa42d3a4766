#include "transport/ucx/rail.hpp"

#include <fmt/format.h>
#include <ucp/api/ucp.h>

#include <list>
#include <thread>

namespace adaptra::transport::ucx {
namespace {

constexpr unsigned message_id = 1;
// Above this, UCX asks the receiver for the place and moves the bytes straight into the slot;
// below, a copy is cheaper than the question.
constexpr std::size_t rendezvous_bytes = std::size_t{32} << 10;
constexpr std::int64_t close_limit_ns = 500'000'000;
constexpr int turns_per_progress = 64;

void check(ucs_status_t status, const std::string& what) {
  if (status == UCS_OK) return;
  throw Error(ExitCode::environment, fmt::format("{}: {}", what, ucs_status_string(status)));
}

struct ConfigRelease {
  void operator()(ucp_config_t* config) const { ucp_config_release(config); }
};

}  // namespace

struct Rail::Impl {
  /// A request on its way, and what it must keep alive.
  struct Pending {
    Impl* rail = nullptr;
    Header header;
    std::string payload;
    std::uint64_t token = 0;
    bool wants_event = true;
    std::list<Pending>::iterator self;
  };

  Path path;
  ucp_context_h context = nullptr;
  ucp_worker_h worker = nullptr;
  ucp_ep_h endpoint = nullptr;
  ucp_mem_h memory = nullptr;
  std::string own_address;
  int fd = -1;
  std::list<Pending> pending;
  std::vector<RailEvent> events;
  std::thread::id owner = std::this_thread::get_id();

  Impl(const Path& p, std::span<std::byte> pool) : path(p) {
    try {
      open(pool);
    } catch (...) {
      close();
      throw;
    }
  }
  ~Impl() { close(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void open(std::span<std::byte> pool);
  void close() noexcept;
  Status send(const Header& header, std::span<const std::byte> payload, std::string owned,
              std::uint64_t token, bool wants_event);
  void finish(Pending& done, ucs_status_t status, RailEvent::Kind kind);
  void fail(ucs_status_t status) {
    RailEvent event;
    event.kind = RailEvent::Kind::failed;
    event.text = ucs_status_string(status);
    events.push_back(std::move(event));
  }

  static ucs_status_t on_message(void* arg, const void* header, std::size_t header_length,
                                 void* data, std::size_t length, const ucp_am_recv_param_t* param);
  static void on_sent(void* request, ucs_status_t status, void* user);
  static void on_received(void* request, ucs_status_t status, std::size_t length, void* user);
  static void on_error(void* arg, ucp_ep_h, ucs_status_t status) {
    static_cast<Impl*>(arg)->fail(status);
  }
};

void Rail::Impl::open(std::span<std::byte> pool) {
  const std::string what = fmt::format("opening {}", path.describe());
  ucp_config_t* raw = nullptr;
  check(ucp_config_read(nullptr, nullptr, &raw), "reading UCX's settings");
  const std::unique_ptr<ucp_config_t, ConfigRelease> config(raw);
  if (path.kind == Path::Kind::shared_memory) {
    check(ucp_config_modify(raw, "TLS", "sm,self"), what);
  } else {
    const bool rdma = path.device.find(':') != std::string::npos;
    check(ucp_config_modify(raw, "TLS", rdma ? "ib" : "tcp"), what);
    check(ucp_config_modify(raw, "NET_DEVICES", path.device.c_str()), what);
  }
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  check(ucp_init(&params, raw, &context), what);

  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
  worker_params.thread_mode = UCS_THREAD_MODE_SINGLE;
  // What a dead rail leaves unfinished is accounted for above, not by UCX.
  worker_params.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK;
  check(ucp_worker_create(context, &worker_params, &worker), what);
  check(ucp_worker_get_efd(worker, &fd), what + ": it cannot wake a sleeping thread");

  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = message_id;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG | UCP_AM_FLAG_PERSISTENT_DATA;
  handler.cb = &Impl::on_message;
  handler.arg = this;
  check(ucp_worker_set_am_recv_handler(worker, &handler), what);

  if (!pool.empty()) {
    ucp_mem_map_params_t map{};
    map.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    map.address = pool.data();
    map.length = pool.size();
    check(ucp_mem_map(context, &map, &memory), what + ": registering the slots (see ulimit -l)");
  }
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  check(ucp_worker_get_address(worker, &address, &length), what);
  own_address.assign(reinterpret_cast<const char*>(address), length);
  ucp_worker_release_address(worker, address);
}

void Rail::Impl::close() noexcept {
  if (endpoint != nullptr) {
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    // UCX force-closes only endpoints that handle errors; shared memory does not.
    param.flags = path.kind == Path::Kind::network ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &param);
    if (UCS_PTR_IS_PTR(request)) {
      const std::int64_t limit = now_ns() + close_limit_ns;
      while (ucp_request_check_status(request) == UCS_INPROGRESS && now_ns() < limit) {
        if (ucp_worker_progress(worker) == 0) std::this_thread::yield();
      }
      ucp_request_free(request);
    }
  }
  for (auto& event : events) {
    if (event.kept != nullptr) ucp_am_data_release(worker, event.kept);
  }
  if (worker != nullptr) ucp_worker_destroy(worker);
  if (memory != nullptr) ucp_mem_unmap(context, memory);
  if (context != nullptr) ucp_cleanup(context);
}

ucs_status_t Rail::Impl::on_message(void* arg, const void* header, std::size_t header_length,
                                    void* data, std::size_t length,
                                    const ucp_am_recv_param_t* param) {
  auto& rail = *static_cast<Impl*>(arg);
  RailEvent event;
  if (header_length != sizeof(Header)) {
    rail.fail(UCS_ERR_INVALID_PARAM);
    return UCS_OK;
  }
  std::memcpy(&event.header, header, sizeof(Header));
  event.bytes = length;
  constexpr std::uint64_t keepable = UCP_AM_RECV_ATTR_FLAG_RNDV | UCP_AM_RECV_ATTR_FLAG_DATA;
  const bool keep = event.header.kind == MessageKind::data && (param->recv_attr & keepable) != 0;
  if (keep) {
    event.kept = data;
    event.token = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV;
  } else if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0 && length > 0) {
    event.text.assign(static_cast<const char*>(data), length);
  }
  rail.events.push_back(std::move(event));
  return keep ? UCS_INPROGRESS : UCS_OK;
}

void Rail::Impl::finish(Pending& done, ucs_status_t status, RailEvent::Kind kind) {
  if (status != UCS_OK) {
    fail(status);
  } else if (done.wants_event) {
    RailEvent event;
    event.kind = kind;
    event.token = done.token;
    events.push_back(std::move(event));
  }
  pending.erase(done.self);
}

void Rail::Impl::on_sent(void* request, ucs_status_t status, void* user) {
  auto& done = *static_cast<Pending*>(user);
  done.rail->finish(done, status, RailEvent::Kind::sent);
  ucp_request_free(request);
}

void Rail::Impl::on_received(void* request, ucs_status_t status, std::size_t, void* user) {
  auto& done = *static_cast<Pending*>(user);
  done.rail->finish(done, status, RailEvent::Kind::received);
  ucp_request_free(request);
}

Status Rail::Impl::send(const Header& header, std::span<const std::byte> payload, std::string owned,
                        std::uint64_t token, bool wants_event) {
  ADAPTRA_CHECK(owner == std::this_thread::get_id());
  pending.emplace_back();
  auto it = std::prev(pending.end());
  *it = {this, header, std::move(owned), token, wants_event, it};
  if (!it->payload.empty()) payload = std::as_bytes(std::span(it->payload));
  ucp_request_param_t param{};
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = payload.size() > rendezvous_bytes ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
  param.cb.send = &Impl::on_sent;
  param.user_data = &*it;
  ucs_status_ptr_t request = ucp_am_send_nbx(endpoint, message_id, &it->header, sizeof(Header),
                                             payload.data(), payload.size(), &param);
  if (UCS_PTR_IS_PTR(request)) return {};
  const ucs_status_t status = UCS_PTR_STATUS(request);
  if (status == UCS_OK) {
    finish(*it, status, RailEvent::Kind::sent);
    return {};
  }
  pending.erase(it);
  return Error(ExitCode::peer_lost, ucs_status_string(status));
}

Rail::Rail(const Path& path, std::span<std::byte> pool)
    : impl_(std::make_unique<Impl>(path, pool)) {}

Rail::~Rail() = default;

std::string Rail::address() const {
  return impl_->own_address;
}

void Rail::connect(const std::string& peer) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.data());
  // With error handling UCX 1.13 leaves out every shared-memory transport.
  params.err_mode = impl_->path.kind == Path::Kind::network ? UCP_ERR_HANDLING_MODE_PEER
                                                            : UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler.cb = &Impl::on_error;
  params.err_handler.arg = impl_.get();
  check(ucp_ep_create(impl_->worker, &params, &impl_->endpoint),
        fmt::format("reaching the peer by {}", impl_->path.describe()));
}

Status Rail::send(const Header& header, std::span<const std::byte> payload, std::uint64_t token) {
  return impl_->send(header, payload, {}, token, true);
}

Status Rail::post(const Header& header, std::string payload) {
  return impl_->send(header, {}, std::move(payload), 0, false);
}

Status Rail::receive(RailEvent& arrived, std::span<std::byte> into, std::uint64_t token) {
  if (arrived.bytes != into.size()) {
    discard(arrived);
    return Error(ExitCode::internal, fmt::format("a message of {} bytes came where {} were agreed",
                                                 arrived.bytes, into.size()));
  }
  RailEvent event;
  event.kind = RailEvent::Kind::received;
  event.token = token;
  if (arrived.kept == nullptr || arrived.token == 0) {  // the bytes are here: copy them
    const void* from = arrived.kept != nullptr ? arrived.kept : arrived.text.data();
    std::memcpy(into.data(), from, into.size());
    discard(arrived);
    impl_->events.push_back(std::move(event));
    return {};
  }
  auto& pending = impl_->pending;
  pending.emplace_back();
  auto it = std::prev(pending.end());
  *it = {impl_.get(), {}, {}, token, true, it};
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = &Impl::on_received;
  param.user_data = &*it;
  void* descriptor = std::exchange(arrived.kept, nullptr);  // UCX owns it from here
  ucs_status_ptr_t request =
      ucp_am_recv_data_nbx(impl_->worker, descriptor, into.data(), into.size(), &param);
  if (UCS_PTR_IS_PTR(request)) return {};
  const ucs_status_t status = UCS_PTR_STATUS(request);
  if (status == UCS_OK) {
    impl_->finish(*it, status, RailEvent::Kind::received);
    return {};
  }
  pending.erase(it);
  return Error(ExitCode::peer_lost, ucs_status_string(status));
}

void Rail::discard(RailEvent& arrived) {
  if (arrived.kept != nullptr) {
    ucp_am_data_release(impl_->worker, std::exchange(arrived.kept, nullptr));
  }
}

bool Rail::progress(std::vector<RailEvent>& events) {
  ADAPTRA_CHECK(impl_->owner == std::this_thread::get_id());
  bool worked = false;
  for (int turn = 0; turn < turns_per_progress && ucp_worker_progress(impl_->worker) != 0; ++turn) {
    worked = true;
  }
  worked = worked || !impl_->events.empty();
  for (auto& event : impl_->events) events.push_back(std::move(event));
  impl_->events.clear();
  return worked;
}

bool Rail::arm() {
  return impl_->events.empty() && ucp_worker_arm(impl_->worker) == UCS_OK;
}

int Rail::event_fd() const {
  return impl_->fd;
}

}  // namespace adaptra::transport::ucx
