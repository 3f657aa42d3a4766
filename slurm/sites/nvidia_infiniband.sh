# Example: nodes with NVIDIA GPUs and InfiniBand. Copy it, change it, and
#   export ADAPTRA_SITE=/path/to/your/copy.sh
# and ask for the GPUs when submitting: sbatch --gpus-per-node=4 --ntasks-per-node=4 ...
module load adaptra                          # after `module use PREFIX/share/adaptra/modulefiles`
export ADAPTRA_LAUNCH=srun
# Every rank sees all GPUs of its node and takes the one of its local rank. Binding GPUs to tasks
# (--gpus-per-task) would hide the peers.
export ADAPTRA_LAUNCH_FLAGS="--gpu-bind=none"
# One locked page per byte of message buffers: the memlock limit has to be unlimited inside jobs
# (the start-up table of a run shows it).
export UCX_NET_DEVICES=mlx5_0:1,mlx5_1:1     # what `ucx_info -d` shows, nearest to the GPUs first
