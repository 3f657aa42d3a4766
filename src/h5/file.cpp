#include "h5/file.hpp"

#include "core/error.hpp"

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace adaptra::h5 {
namespace {

static_assert(sizeof(hid_t) == sizeof(std::int64_t));

// The one global of this folder: the library behind it is one per process too.
std::recursive_mutex& library_lock() {
  static std::recursive_mutex lock;
  return lock;
}

// Holds the lock, and keeps HDF5 from printing its error stack: our message replaces it.
class Call {
 public:
  Call() : guard_(library_lock()) {
    H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Call() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  std::lock_guard<std::recursive_mutex> guard_;
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
};

std::string innermost_message() {
  std::string text;
  const auto note = [](unsigned, const H5E_error2_t* error, void* data) -> herr_t {
    if (error->desc != nullptr && *error->desc != 0) *static_cast<std::string*>(data) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, note, &text);
  return text.empty() ? "HDF5 gives no reason" : text;
}

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what) {
  std::string reason = innermost_message();
  if (reason.find("lock file") != std::string::npos ||
      reason.find("file locking") != std::string::npos) {
    reason += " (on file systems without locks, set HDF5_USE_FILE_LOCKING=FALSE)";
  }
  throw Error(ExitCode::file, fmt::format("{}: {}: {}", file.string(), what, reason));
}

template <herr_t (*Function)(hid_t)>
int close_with(std::int64_t id) {
  return Function(id);
}

Handle plist(hid_t type) {
  return {H5Pcreate(type), close_with<H5Pclose>};
}

Handle links_with_groups() {
  Handle list = plist(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(list.id(), 1);
  return list;
}

std::vector<hsize_t> sizes(std::span<const std::int64_t> shape) {
  return {shape.begin(), shape.end()};
}

}  // namespace

Handle::Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    close();
    id_ = std::exchange(other.id_, -1);
    close_ = other.close_;
  }
  return *this;
}
Handle::~Handle() {
  close();
}
bool Handle::close() {
  if (id_ < 0) return true;
  const Call call;
  return close_(std::exchange(id_, -1)) >= 0;
}

File File::create(const std::filesystem::path& path, std::uint64_t user_block_bytes) {
  const Call call;
  const Handle creation = plist(H5P_FILE_CREATE), access = plist(H5P_FILE_ACCESS);
  if (user_block_bytes > 0) H5Pset_userblock(creation.id(), user_block_bytes);
  // Large arrays begin on pages: their writers do not share one.
  H5Pset_alignment(access.id(), 65536, 4096);
  Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.id(), access.id()),
              close_with<H5Fclose>);
  if (!file.valid()) fail(path, "cannot be created");
  return {path, std::move(file)};
}

File File::open(const std::filesystem::path& path) {
  const Call call;
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), close_with<H5Fclose>);
  if (!file.valid()) fail(path, "cannot be opened");
  return {path, std::move(file)};
}

File File::open_parallel(const std::filesystem::path& path, MPI_Comm comm) {
  const Call call;
  const Handle access = plist(H5P_FILE_ACCESS);
  H5Pset_fapl_mpio(access.id(), comm, MPI_INFO_NULL);
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDWR, access.id()), close_with<H5Fclose>);
  if (!file.valid()) fail(path, "cannot be opened by all ranks");
  return {path, std::move(file)};
}

void File::write_scalar(const std::string& path, std::int64_t type, const void* value) {
  const Handle space(H5Screate(H5S_SCALAR), close_with<H5Sclose>);
  const Handle links = links_with_groups(), creation = plist(H5P_DATASET_CREATE);
  H5Pset_obj_track_times(creation.id(), false);
  const Handle array(H5Dcreate2(file_.id(), path.c_str(), type, space.id(), links.id(),
                                creation.id(), H5P_DEFAULT),
                     close_with<H5Dclose>);
  if (!array.valid() || H5Dwrite(array.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) < 0) {
    fail(path_, path + " cannot be written");
  }
}

void File::make_group(const std::string& path) {
  const Call call;
  const Handle links = links_with_groups();
  const Handle group(H5Gcreate2(file_.id(), path.c_str(), links.id(), H5P_DEFAULT, H5P_DEFAULT),
                     close_with<H5Gclose>);
  if (!group.valid()) fail(path_, path + " cannot be made");
}

void File::write_text(const std::string& path, std::string_view text) {
  const Call call;
  const Handle type(H5Tcopy(H5T_C_S1), close_with<H5Tclose>);
  // HDF5 has no strings of length 0: one NUL of padding stands for it.
  const std::string padded(text.empty() ? std::string(1, '\0') : std::string(text));
  H5Tset_size(type.id(), padded.size());
  H5Tset_strpad(type.id(), H5T_STR_NULLPAD);
  H5Tset_cset(type.id(), H5T_CSET_UTF8);
  write_scalar(path, type.id(), padded.data());
}

void File::write_integer(const std::string& path, std::int64_t value) {
  const Call call;
  write_scalar(path, H5T_STD_I64LE, &value);
}

void File::write_number(const std::string& path, double value) {
  const Call call;
  write_scalar(path, H5T_IEEE_F64LE, &value);
}

Place File::reserve(const std::string& path, std::span<const std::int64_t> shape,
                    std::int64_t type) {
  const auto extent = sizes(shape);
  const Handle space(H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr),
                     close_with<H5Sclose>);
  const Handle links = links_with_groups(), creation = plist(H5P_DATASET_CREATE);
  H5Pset_layout(creation.id(), H5D_CONTIGUOUS);
  H5Pset_alloc_time(creation.id(), H5D_ALLOC_TIME_EARLY);
  H5Pset_fill_time(creation.id(), H5D_FILL_TIME_NEVER);
  H5Pset_obj_track_times(creation.id(), false);
  const Handle array(H5Dcreate2(file_.id(), path.c_str(), type, space.id(), links.id(),
                                creation.id(), H5P_DEFAULT),
                     close_with<H5Dclose>);
  if (!array.valid()) fail(path_, path + " cannot be laid out");
  return place(path);
}

Place File::reserve_floats(const std::string& path, std::span<const std::int64_t> shape) {
  const Call call;
  return reserve(path, shape, H5T_IEEE_F32LE);
}

Place File::reserve_words(const std::string& path, std::span<const std::int64_t> shape) {
  const Call call;
  return reserve(path, shape, H5T_STD_U64LE);
}

Handle File::open_array(const std::string& path) const {
  Handle array(H5Dopen2(file_.id(), path.c_str(), H5P_DEFAULT), close_with<H5Dclose>);
  if (!array.valid()) fail(path_, path + " is missing");
  return array;
}

Place File::place(const std::string& path) const {
  const Call call;
  const Handle array = open_array(path);
  const Handle space(H5Dget_space(array.id()), close_with<H5Sclose>);
  const int axes = H5Sget_simple_extent_ndims(space.id());
  std::vector<hsize_t> extent(static_cast<std::size_t>(std::max(axes, 0)));
  const haddr_t offset = H5Dget_offset(array.id());
  if (axes < 0 || H5Sget_simple_extent_dims(space.id(), extent.data(), nullptr) < 0 ||
      offset == HADDR_UNDEF) {
    fail(path_, path + " has no bytes of its own in the file");
  }
  return {{extent.begin(), extent.end()}, offset, H5Dget_storage_size(array.id())};
}

void File::read_scalar(const std::string& path, std::int64_t type, void* value) const {
  const Handle array = open_array(path);
  const Handle space(H5Dget_space(array.id()), close_with<H5Sclose>);
  if (H5Sget_simple_extent_npoints(space.id()) != 1 ||
      H5Dread(array.id(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) < 0) {
    fail(path_, path + " cannot be read");
  }
}

std::string File::read_text(const std::string& path) const {
  const Call call;
  const Handle array = open_array(path);
  const Handle type(H5Dget_type(array.id()), close_with<H5Tclose>);
  if (H5Tget_class(type.id()) != H5T_STRING || H5Tis_variable_str(type.id()) > 0) {
    fail(path_, path + " is not a text of fixed length");
  }
  std::string text(H5Tget_size(type.id()), '\0');
  read_scalar(path, type.id(), text.data());
  text.erase(text.find_last_not_of('\0') + 1);
  return text;
}

std::int64_t File::read_integer(const std::string& path) const {
  const Call call;
  std::int64_t value = 0;
  read_scalar(path, H5T_NATIVE_INT64, &value);
  return value;
}

double File::read_number(const std::string& path) const {
  const Call call;
  double value = 0;
  read_scalar(path, H5T_NATIVE_DOUBLE, &value);
  return value;
}

bool File::has(const std::string& path) const {
  const Call call;
  // Every group on the way has to be asked for, else HDF5 calls the question itself an error.
  for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    if (H5Lexists(file_.id(), path.substr(0, end).c_str(), H5P_DEFAULT) <= 0) return false;
    if (end == std::string::npos) return true;
  }
}

std::vector<std::string> File::list(const std::string& group) const {
  const Call call;
  std::vector<std::string> names;
  const Handle opened(H5Gopen2(file_.id(), group.c_str(), H5P_DEFAULT), close_with<H5Gclose>);
  const auto note = [](hid_t, const char* name, const H5L_info_t*, void* data) -> herr_t {
    static_cast<std::vector<std::string>*>(data)->emplace_back(name);
    return 0;
  };
  if (!opened.valid() ||
      H5Literate(opened.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, note, &names) < 0) {
    fail(path_, group + " cannot be listed");
  }
  return names;
}

void File::write_rows(const std::string& path, std::int64_t first_row, std::int64_t rows,
                      std::span<const float> values, Transfer transfer) {
  const Call call;
  const Handle array = open_array(path);
  const Handle in_file(H5Dget_space(array.id()), close_with<H5Sclose>);
  const int axes = H5Sget_simple_extent_ndims(in_file.id());
  std::vector<hsize_t> extent(static_cast<std::size_t>(axes)), start(extent.size(), 0);
  H5Sget_simple_extent_dims(in_file.id(), extent.data(), nullptr);
  const hsize_t count = values.size();
  const Handle in_memory(H5Screate_simple(1, &count, nullptr), close_with<H5Sclose>);
  if (rows > 0) {
    start[0] = static_cast<hsize_t>(first_row);
    extent[0] = static_cast<hsize_t>(rows);
    H5Sselect_hyperslab(in_file.id(), H5S_SELECT_SET, start.data(), nullptr, extent.data(),
                        nullptr);
  } else {
    H5Sselect_none(in_file.id());
    H5Sselect_none(in_memory.id());
  }
  const Handle how = plist(H5P_DATASET_XFER);
  H5Pset_dxpl_mpio(how.id(),
                   transfer == Transfer::collective ? H5FD_MPIO_COLLECTIVE : H5FD_MPIO_INDEPENDENT);
  if (H5Dwrite(array.id(), H5T_NATIVE_FLOAT, in_memory.id(), in_file.id(), how.id(),
               values.data()) < 0) {
    fail(path_, path + " cannot be written");
  }
}

void File::close() {
  const Call call;
  if (!file_.close()) fail(path_, "cannot be closed");
}

std::string library_version() {
  const Call call;
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace adaptra::h5
