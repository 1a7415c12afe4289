"""What the records mean: pure functions from records to values.

The way from a failing answer to the line that computed it: `reconstruct.diagnose` reads each tape into agents, stints
and workers (`facts`), joins the agents' stints into the job's attempts (`attempts`), and asks for each what ended it
(`verdict`). ``docs/diagnosis.md`` tells the same in words.
"""
