# Example: nodes with two CPU sockets, no accelerator. Copy it, change it, and
#   export ADAPTRA_SITE=/path/to/your/copy.sh
module load adaptra                          # after `module use PREFIX/share/adaptra/modulefiles`
export ADAPTRA_LAUNCH=srun
# A rank's threads stay on one socket: with 32 cores per socket, --cpus-per-task should divide 32.
export ADAPTRA_LAUNCH_FLAGS="--distribution=block:block"
export OMP_PLACES=cores OMP_PROC_BIND=close
export HDF5_USE_FILE_LOCKING=FALSE           # where the parallel file system has no locks
