"""Recording of a job from inside its processes, without a change to anyone's script."""
