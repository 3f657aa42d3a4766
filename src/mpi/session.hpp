#pragma once
// MPI from initialisation to finalisation, as one object in main(). Asks for MPI_THREAD_FUNNELED:
// only the main thread calls MPI; a library that gives less is a fatal, explained error.

#include <string>

namespace adaptra::mpi {

class Session {
 public:
  /// Initialises MPI. Collective. Throws Error{environment}.
  Session(int* argc, char*** argv);
  /// Finalises MPI.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// "Open MPI 4.1.4" and the like.
  std::string library() const;

  /// Ends every rank at once with `code`. For driver/ only.
  [[noreturn]] void abort(int code);

 private:
  int rank_ = 0;
  int size_ = 1;
};

/// A launcher started several tasks but MPI sees one: each process would believe to be the whole
/// run and overwrite the others' files. Gives the explanation, or "" where all is well. Call it
/// with the size of the world and before touching any file.
std::string lonely_rank_problem(int world_size);

}  // namespace adaptra::mpi
