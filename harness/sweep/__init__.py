"""What to run and where: grid spec, plan, local pool, status, mirror. Never imports torch."""
