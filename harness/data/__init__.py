"""Makes the data files of a scale, and shows how hard a data set is. Leaves out: reading them in a run (`tasks`)."""
